#include "osdn/dist/socket.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::dist {
namespace {

constexpr int kStream = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

std::string reason() {
  return std::strerror(errno);
}

/// Small messages leave at once.
void send_at_once(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/// An IPv6 socket takes IPv4 connections too; where there is no IPv6, an IPv4
/// one is what remains.
Socket bound_socket(int family) {
  Socket socket(::socket(family, kStream, 0));
  if (!socket.is_open()) return {};
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  const int off = 0;
  if (family == AF_INET6 && ::setsockopt(socket.descriptor(), IPPROTO_IPV6,
                                         IPV6_V6ONLY, &off, sizeof(off)) != 0) {
    return {};
  }
  const socklen_t size =
      family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  // All zeros: any address, any port.
  if (::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&any),
             size) != 0 ||
      ::listen(socket.descriptor(), SOMAXCONN) != 0) {
    return {};
  }
  return socket;
}

std::string figures(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return "";
  }
  return text.data();
}

}  // namespace

Socket::Socket(Socket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

Listener listen_anywhere() {
  Listener listener;
  listener.socket = bound_socket(AF_INET6);
  if (!listener.socket.is_open()) listener.socket = bound_socket(AF_INET);
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (!listener.socket.is_open() ||
      ::getsockname(listener.socket.descriptor(),
                    reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    throw Error(concat("cannot listen for the other ranks: ", reason()));
  }
  listener.port = ntohs(bound.ss_family == AF_INET6
                            ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                            : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return listener;
}

std::optional<Socket> accept_from(const Socket& listener) {
  for (;;) {
    Socket socket(::accept4(listener.descriptor(), nullptr, nullptr,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.is_open()) {
      send_at_once(socket.descriptor());
      return socket;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
        errno == ENOMEM || errno == EBADF || errno == EINVAL) {
      throw Error(concat("cannot take the connection of another rank: ",
                         reason(), " (see: ulimit -n)"));
    }
    // Anything else is the fault of that one connection: the next.
  }
}

std::vector<Endpoint> resolve(const std::string& name, std::uint16_t port,
                              std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status =
      ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0) {
    why = status == EAI_SYSTEM ? reason() : ::gai_strerror(status);
    return {};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found,
                                                             ::freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (; found != nullptr; found = found->ai_next) {
    Endpoint endpoint;
    endpoint.size = found->ai_addrlen;
    std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

Socket start_connect(const Endpoint& to, std::string& why) {
  Socket socket(::socket(to.address.ss_family, kStream, 0));
  if (!socket.is_open()) {
    why = reason();
    return socket;
  }
  send_at_once(socket.descriptor());
  // Interrupted, it goes on by itself.
  if (::connect(socket.descriptor(),
                reinterpret_cast<const sockaddr*>(&to.address), to.size) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    why = reason();
    socket.close();
  }
  return socket;
}

std::string connect_error(const Socket& socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) !=
      0) {
    error = errno;
  }
  return error == 0 ? "" : std::strerror(error);
}

std::vector<InterfaceAddress> interface_addresses() {
  struct Found {
    int order;
    InterfaceAddress address;
  };
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<Found> found;
  for (; list != nullptr; list = list->ifa_next) {
    const sockaddr* address = list->ifa_addr;
    if (address == nullptr || (list->ifa_flags & IFF_UP) == 0) continue;
    const bool six = address->sa_family == AF_INET6;
    if (!six && address->sa_family != AF_INET) continue;
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(address);
    if (six && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)) continue;
    const std::string text =
        figures(address, six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    if (text.empty()) continue;
    const bool loopback = (list->ifa_flags & IFF_LOOPBACK) != 0;
    found.push_back({2 * loopback + six, {text, list->ifa_name}});
  }
  std::stable_sort(
      found.begin(), found.end(),
      [](const auto& a, const auto& b) { return a.order < b.order; });
  std::vector<InterfaceAddress> addresses;
  for (Found& one : found) addresses.push_back(std::move(one.address));
  return addresses;
}

}  // namespace osdn::dist
