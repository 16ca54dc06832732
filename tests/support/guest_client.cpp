#include "tests/support/guest_client.h"

#include <cstring>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/base/check.h"
#include "sim/guest/frames.h"

namespace test {

GuestLink::GuestLink() {
  SIM_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets_) == 0);
  segment_ = memfd_create("guest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  SIM_CHECK(segment_ >= 0);
}

GuestLink::~GuestLink() {
  hang_up();
  close(sockets_[0]);
  close(segment_);
}

void GuestLink::hang_up() {
  if (sockets_[1] >= 0) close(sockets_[1]);
  sockets_[1] = -1;
}

void GuestLink::end_of_rank() { shutdown(sockets_[0], SHUT_RDWR); }

GuestClient::GuestClient(const GuestLink& link, std::size_t segment_bytes) : socket_(link.guest_socket()) {
  SIM_CHECK(ftruncate(link.segment(), static_cast<off_t>(segment_bytes)) == 0);
  void* memory = mmap(nullptr, segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, link.segment(), 0);
  SIM_CHECK(memory != MAP_FAILED);
  memory_ = {static_cast<std::byte*>(memory), segment_bytes};
}

GuestClient::~GuestClient() { munmap(memory_.data(), memory_.size()); }

void GuestClient::write(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t now = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now < 0) throw std::runtime_error("the rank has hung up");
    sent += static_cast<std::size_t>(now);
  }
}

void GuestClient::write_frame(const std::string& body) {
  const std::uint32_t header[] = {sim::kFrameMark, written_++, static_cast<std::uint32_t>(body.size())};
  std::string frame(sizeof(header), '\0');
  std::memcpy(frame.data(), header, sizeof(header));
  write(frame + body);
}

nlohmann::json GuestClient::read_answer() {
  const auto bytes = [&](std::size_t wanted) {
    std::string all(wanted, '\0');
    for (std::size_t got = 0; got < wanted;) {
      const ssize_t now = recv(socket_, all.data() + got, wanted - got, 0);
      if (now <= 0) throw std::runtime_error("the rank has hung up");
      got += static_cast<std::size_t>(now);
    }
    return all;
  };
  std::uint32_t header[3];
  std::memcpy(header, bytes(sizeof(header)).data(), sizeof(header));
  return nlohmann::json::parse(bytes(header[2]));
}

nlohmann::json GuestClient::ask(const nlohmann::json& request) {
  write_frame(request.dump());
  nlohmann::json answer = read_answer();
  if (answer.contains("refused")) throw std::runtime_error(answer.dump());
  if (answer.contains("ended")) throw std::runtime_error("the world has ended");
  return answer;
}

}  // namespace test
