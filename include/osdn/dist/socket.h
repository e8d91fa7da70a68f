#pragma once
// TCP sockets that never block, over IPv4 and IPv6, and the addresses by which
// a host can be reached.

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace osdn::dist {

/// A descriptor, closed by the destructor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  void close();

 private:
  int descriptor_ = -1;
};

struct Listener {
  Socket socket;
  std::uint16_t port = 0;
};

/// Listens on every address of this host, at a port that the system picks.
/// Throws Error with the system's reason.
Listener listen_anywhere();

/// The next connection that waits, or nothing. Throws Error where the system
/// refuses to make one.
std::optional<Socket> accept_from(const Socket& listener);

/// Where to connect to.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;
};

/// The addresses of a name, or of an address in figures; empty, with the reason
/// in `why`, where there are none. A name may take as long as the host's
/// resolver does.
std::vector<Endpoint> resolve(const std::string& name, std::uint16_t port,
                              std::string& why);

/// A connection under way: it is made when the socket can be written and
/// connect_error() is empty. Closed, with the reason in `why`, where it fails
/// at once.
Socket start_connect(const Endpoint& to, std::string& why);
std::string connect_error(const Socket& socket);

/// An address of this host, in figures.
struct InterfaceAddress {
  std::string address;
  std::string interface;
};

/// Those of interfaces that are up: IPv4 first, loopback last. Addresses that
/// hold on one link only (fe80::) are left out.
std::vector<InterfaceAddress> interface_addresses();

}  // namespace osdn::dist
