// Proves ScaledLinear; with the word --planted before all others, a wrong one.
#include <string_view>
#include <utility>
#include <verify/prove.h>

#include "scaled_linear_case.h"

int main(int argc, char** argv) {
  const bool planted = argc > 1 && std::string_view(argv[1]) == "--planted";
  verify::CaseList cases;
  cases.push_back(outside::scaled_linear_case(planted));
  return verify::prove(argc, argv, std::move(cases), planted ? 1 : 0);
}
