#include "osdn/dist/world.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/env.h"
#include "osdn/core/error.h"
#include "osdn/core/host.h"
#include "osdn/dist/launcher.h"
#include "osdn/dist/transport.h"

namespace osdn::dist {

namespace {

// What fails between ranks is as a rule the other rank's end, which the watch
// sees at once and says better.
constexpr std::chrono::seconds kWatchFirst{3};
// With a watch, which ends the process when no end can be hoped for.
constexpr std::chrono::hours kForEver{24 * 365};

std::chrono::duration<double> start_timeout() {
  const auto text = env("OSDN_START_TIMEOUT");
  if (!text || text->empty()) return std::chrono::seconds(120);
  double seconds = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, fault] = std::from_chars(text->data(), end, seconds);
  if (fault != std::errc() || rest != end ||
      !(seconds >= 1 && seconds <= 1e6)) {
    throw Error(concat("OSDN_START_TIMEOUT is \"", *text,
                       "\"; expected seconds from 1 to 1000000"),
                ExitCode::kUsage);
  }
  return std::chrono::duration<double>(seconds);
}

void refuse_copies() {
  const auto tasks = env("SLURM_STEP_NUM_TASKS");
  if (tasks && *tasks != "1" && !tasks->empty()) {
    throw Error(concat("srun started ", *tasks,
                       " copies of this program that do not know of each "
                       "other; start them with srun --mpi=pmix (srun "
                       "--mpi=list shows what there is), or one task"),
                ExitCode::kUsage);
  }
}

// Started by the launcher of another MPI, each process would take itself for
// the only one.
void refuse_strangers(const Place& place) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const auto said = env(name);
    if (!said || *said == std::to_string(place.size)) continue;
    throw Error(concat("the launcher started ", *said, " ranks (", name,
                       "), and MPI knows of ", place.size,
                       "; start the program with the mpirun of the MPI that it "
                       "was built with"),
                ExitCode::kUsage);
  }
}

// What agree() says between ranks: exit code, then the message.
std::string pack(const Error& error) {
  return concat(static_cast<int>(error.code()), " ", error.what());
}

Error unpack(const std::string& text) {
  const std::size_t blank = text.find(' ');
  return Error(text.substr(blank + 1),
               static_cast<ExitCode>(std::stoi(text.substr(0, blank))));
}

}  // namespace

World::World() : timeout_(start_timeout()), transport_(join_ranks(timeout_)) {
  if (transport_) {
    place_ = transport_->place();
    try {
      refuse_strangers(place_);
    } catch (...) {
      transport_->abandon();
      throw;
    }
  } else {
    refuse_copies();
    place_.host = host_name();
  }
}

World::~World() {
  if (!transport_) return;
  if (abandoned_) {
    transport_->abandon();
    return;
  }
  try {
    if (watch_) watch_->leave();
    transport_->part()->wait(timeout_);
  } catch (...) {
    transport_->abandon();  // the work is done and saved
  }
}

void World::start_watch(WatchOptions options) {
  if (!transport_) return;
  options.rank = place_.rank;
  options.size = place_.size;
  options.host = place_.host;
  options.timeout = timeout_;
  options.look = [look = options.look] {
    const std::string trouble = launcher_trouble();
    return trouble.empty() && look ? look() : trouble;
  };
  watch_ = std::make_unique<Watch>(
      options, [this](const std::string& text) { return from_first(text); });
}

void World::working(std::string_view on) {
  work_ = on;
  if (watch_) watch_->working(on);
}

void World::fail(const std::string& why) {
  if (watch_) watch_->fail(why);
}

World::Wait::Wait(World& world, std::string_view what) : world_(world) {
  if (world_.watch_ && world_.in_steps_) {
    world_.watch_->waiting(what, ++world_.waits_);
  }
}

World::Wait::~Wait() {
  if (world_.watch_ && world_.in_steps_) {
    world_.watch_->working(world_.work_);
  }
}

void World::wait(Pending& pending) {
  const Wait wait(*this, pending.what());
  pending.wait(watch_ ? std::chrono::duration<double>(kForEver) : timeout_);
}

std::vector<std::string> World::all(const std::string& text) {
  if (!transport_) return {text};
  const auto ranks = static_cast<std::size_t>(place_.size);
  std::vector<std::uint64_t> sizes(ranks);
  sizes[static_cast<std::size_t>(place_.rank)] = text.size();
  wait(*transport_->all_gather("a text of every rank",
                               reinterpret_cast<std::byte*>(sizes.data()),
                               sizeof(std::uint64_t)));
  const std::uint64_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::string parts(ranks * longest, '\0');
  text.copy(parts.data() + static_cast<std::size_t>(place_.rank) * longest,
            text.size());
  wait(*transport_->all_gather("a text of every rank",
                               reinterpret_cast<std::byte*>(parts.data()),
                               static_cast<std::int64_t>(longest)));
  std::vector<std::string> out;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    out.push_back(parts.substr(rank * longest, sizes[rank]));
  }
  return out;
}

std::string World::from_first(const std::string& text) {
  return all(place_.first() ? text : std::string()).front();
}

std::vector<std::vector<double>> World::all_numbers(
    const std::vector<double>& numbers) {
  if (!transport_) return {numbers};
  const std::size_t count = numbers.size();
  std::vector<double> parts(count * static_cast<std::size_t>(place_.size));
  std::copy(numbers.begin(), numbers.end(),
            parts.begin() + static_cast<std::ptrdiff_t>(count) * place_.rank);
  wait(*transport_->all_gather(
      "numbers of every rank", reinterpret_cast<std::byte*>(parts.data()),
      static_cast<std::int64_t>(count * sizeof(double))));
  std::vector<std::vector<double>> out;
  for (auto part = parts.cbegin(); out.size() * count < parts.size();
       part += static_cast<std::ptrdiff_t>(count)) {
    out.emplace_back(part, part + static_cast<std::ptrdiff_t>(count));
  }
  return out;
}

void World::agree(const std::function<void()>& check) {
  if (!transport_) {
    check();
    return;
  }
  std::string mine;
  try {
    check();
  } catch (const Error& error) {
    mine = pack(error);
  } catch (const std::exception& error) {
    mine = pack(Error(error.what()));
  }
  const std::vector<std::string> said = all(mine);
  std::set<std::string> different(said.begin(), said.end());
  if (different.size() == 1 && different.begin()->empty()) return;
  if (different.size() == 1) {
    const Error error = unpack(*different.begin());
    throw_agreed(error.what(), error.code());
  }
  std::string message;
  ExitCode code = ExitCode::kFailure;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (said[rank].empty()) continue;
    const Error error = unpack(said[rank]);
    message +=
        concat(message.empty() ? "" : "\n", "rank ", rank, ": ", error.what());
    code = error.code();
  }
  throw_agreed(message, code);
}

void World::throw_agreed(const std::string& message, ExitCode code) const {
  throw AgreedError(place_.first() ? message : "", code);
}

void World::run(const std::function<void()>& work) {
  try {
    work();
  } catch (const AgreedError&) {
    throw;
  } catch (const std::exception& error) {
    if (watch_ && dynamic_cast<const LinkError*>(&error)) {
      std::this_thread::sleep_for(kWatchFirst);
    }
    fail(error.what());
    abandoned_ = true;
    throw;
  }
}

}  // namespace osdn::dist
