#include "meeting.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "osdn/core/concat.h"
#include "osdn/core/env.h"
#include "osdn/core/error.h"
#include "osdn/core/hash.h"
#include "osdn/core/host.h"

namespace osdn::dist {
namespace {

constexpr std::string_view kFirstLine = "osdn watch 1";
constexpr std::string_view kErrorLine = "osdn watch error";

std::string random_token() {
  std::array<std::uint8_t, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    throw Error(concat("cannot draw a random token: ", std::strerror(errno)));
  }
  return to_hex(bytes);
}

/// One name, one address, or those of one interface; empty: all of this host.
std::vector<InterfaceAddress> addresses_to_offer(const std::string& asked) {
  const std::vector<InterfaceAddress> all = interface_addresses();
  if (asked.empty()) {
    std::vector<InterfaceAddress> offered = all;
    // Last: asking for a name can take long.
    const std::string name = host_name();
    if (!name.empty()) offered.push_back({name, ""});
    return offered;
  }
  std::vector<InterfaceAddress> offered;
  for (const InterfaceAddress& one : all) {
    if (one.interface == asked) offered.push_back(one);
  }
  if (offered.empty()) offered.push_back({asked, ""});
  return offered;
}

Invitation invite(const WatchOptions& options, std::uint16_t port) {
  Invitation invitation;
  invitation.token = random_token();
  invitation.port = port;
  invitation.host = options.host;
  const auto variable = env("OSDN_ADDRESS");
  invitation.addresses = addresses_to_offer(
      variable && !variable->empty() ? *variable : options.address);
  return invitation;
}

}  // namespace

std::string to_text(const Invitation& invitation) {
  std::string text = concat(kFirstLine, "\n", invitation.token, "\n",
                            invitation.port, "\n", invitation.host, "\n");
  for (const InterfaceAddress& one : invitation.addresses) {
    text += concat(one.address, " ", one.interface, "\n");
  }
  return text;
}

Invitation invitation_from(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  if (line == kErrorLine) {
    throw Error(text.substr(line.size() + 1));
  }
  Invitation invitation;
  std::string port;
  std::getline(lines, invitation.token);
  std::getline(lines, port);
  std::getline(lines, invitation.host);
  unsigned number = 0;
  std::istringstream(port) >> number;
  if (line != kFirstLine || number == 0 || number > 65535) {
    throw Error(
        "what rank 0 broadcast is not how to reach it; do all ranks run the "
        "same program?");
  }
  invitation.port = static_cast<std::uint16_t>(number);
  while (std::getline(lines, line)) {
    const std::size_t space = line.find(' ');
    invitation.addresses.push_back(
        {line.substr(0, space), line.substr(space + 1)});
  }
  return invitation;
}

std::string address_advice() {
  return "set OSDN_ADDRESS to the address, the name or the network interface "
         "by which the other hosts reach rank 0's (OSDN_ADDRESS=eth0), and see "
         "that no firewall closes its ports";
}

std::vector<Seat> meet(
    const WatchOptions& options,
    const std::function<std::string(const std::string&)>& broadcast) {
  if (options.rank != 0) {
    std::vector<Seat> seats;
    seats.push_back(join_meeting(options, invitation_from(broadcast(""))));
    return seats;
  }
  Listener listener;
  Invitation invitation;
  try {
    listener = listen_anywhere();
    invitation = invite(options, listener.port);
  } catch (const std::exception& error) {
    // The others are in the broadcast and must come out of it, too.
    broadcast(concat(kErrorLine, "\nrank 0 (host ", options.host,
                     "): ", error.what()));
    throw;
  }
  broadcast(to_text(invitation));
  return host_meeting(options, listener, invitation);
}

}  // namespace osdn::dist
