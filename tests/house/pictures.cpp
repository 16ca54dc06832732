#include "tests/house/pictures.h"

#include "tests/house/check_picture.h"
#include "tests/house/room_picture.h"

namespace test {

std::vector<Picture> all_pictures(const std::vector<SourceFile>& sources) {
  return {{"tests/house/rooms.svg", room_picture(sources)}, {"tests/house/check.svg", check_picture()}};
}

}  // namespace test
