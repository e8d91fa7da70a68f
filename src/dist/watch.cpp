#include "osdn/dist/watch.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "meeting.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/dist/channel.h"
#include "osdn/dist/roster.h"

namespace osdn::dist {
namespace {

using Clock = std::chrono::steady_clock;

/// Signals are for the program's own threads.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// Interrupts the thread's poll().
class Bell {
 public:
  Bell() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!event_.is_open()) throw Error("cannot make an eventfd");
  }
  int descriptor() const { return event_.descriptor(); }
  // Full is rung, empty is silent: neither matters.
  void ring() const { ::eventfd_write(descriptor(), 1); }
  void silence() const {
    eventfd_t count = 0;
    ::eventfd_read(descriptor(), &count);
  }

 private:
  Socket event_;
};

void check(const WatchOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size ||
      !(options.timeout.count() > 0) ||
      ((options.size > 1 || options.look) && !options.on_failure)) {
    throw Error(
        concat("a watch needs a rank below its size, a time-out and "
               "what to do on a failure; got rank ",
               options.rank, " of ", options.size, " and ",
               options.timeout.count(), " s"));
  }
}

}  // namespace

std::string describe(const RankFailure& failure) {
  return concat("rank ", failure.rank,
                failure.host.empty() ? "" : " (host " + failure.host + ")",
                ": ", failure.why);
}

struct Watch::State {
  explicit State(const WatchOptions& given)
      : options(given), deadlines(given.timeout) {}

  void run();
  void watch();
  std::optional<RankFailure> find();
  void show_life();
  void hear(Seat& seat);
  void hear_own();
  void look();
  void note(const RankFailure& found, int from);
  RankFailure own(const std::string& why) const {
    return {options.rank, options.host, why};
  }
  bool all_have_left() const;
  void pass_on();

  const WatchOptions options;
  const Deadlines deadlines;
  std::optional<Bell> bell{};

  // The thread's own.
  std::vector<Seat> seats{};
  std::optional<Roster> roster{};  ///< at rank 0 with itself in it
  std::optional<RankFailure> failure{};
  int teller = 0;          ///< whom the failure came from, or this rank
  bool own_words = false;  ///< it came by fail()
  bool said_bye = false;

  // Shared with the callers' threads.
  std::mutex mutex{};
  std::condition_variable changed{};
  Progress progress{};
  std::optional<std::string> to_say{};  ///< by fail()
  bool leaving = false;
  bool stopped = false;
  bool told = false;   ///< the last words are sent
  bool ended = false;  ///< nothing more happens on the thread

  std::thread thread{};
};

void Watch::State::run() {
  const auto set = [&](bool& flag) {
    {
      const std::lock_guard lock(mutex);
      flag = true;
    }
    changed.notify_all();
  };
  try {
    watch();
  } catch (const std::exception& error) {
    note(own(concat("its watch failed: ", error.what())), options.rank);
  }
  pass_on();
  set(told);
  if (failure && !own_words) options.on_failure(*failure);
  set(ended);
}

/// Until a rank has failed, all have left, or this one stops watching.
void Watch::State::watch() {
  std::vector<Channel*> channels;
  for (Seat& seat : seats) channels.push_back(&seat.channel);
  TimePoint next_sign = Clock::now();
  while (!failure && !all_have_left()) {
    if (Clock::now() >= next_sign) {
      show_life();
      look();
      next_sign = after(deadlines.interval);
    }
    wait_for_any(channels, bell->descriptor(), next_sign);
    bell->silence();
    // What came while this process was stopped counts before the silence.
    for (Seat& seat : seats) hear(seat);
    hear_own();
    if (const auto found = find()) note(*found, options.rank);
    const std::lock_guard lock(mutex);
    if (stopped) return;
  }
}

/// Rank 0 alone knows how far every rank has come. One without others waits for
/// none.
std::optional<RankFailure> Watch::State::find() {
  if (options.size == 1) return std::nullopt;
  const TimePoint now = Clock::now();
  return options.rank == 0 ? roster->find(now) : roster->find_silent(now);
}

void Watch::State::show_life() {
  Progress now;
  {
    const std::lock_guard lock(mutex);
    now = progress;
  }
  if (options.rank == 0) roster->heard(0, now, Clock::now());
  for (Seat& seat : seats) {
    // Who does not read is not given more to read.
    if (seat.channel.has_unsent()) continue;
    seat.channel.send({.kind = MessageKind::kAlive,
                       .count = now.count,
                       .sequence = now.sequence,
                       .waiting = now.waiting,
                       .text = now.on});
  }
}

void Watch::State::look() {
  if (!options.look) return;
  const std::string trouble = options.look();
  if (!trouble.empty()) note(own(trouble), options.rank);
}

void Watch::State::hear(Seat& seat) {
  Channel& channel = seat.channel;
  channel.flush();
  while (const auto message = channel.receive()) {
    if (message->kind == MessageKind::kAlive) {
      roster->heard(
          seat.rank,
          {message->count, message->sequence, message->waiting, message->text},
          Clock::now());
    } else if (message->kind == MessageKind::kFailure) {
      channel.send({.kind = MessageKind::kHeard});
      note({static_cast<int>(message->rank), message->host, message->text},
           seat.rank);
    } else if (message->kind == MessageKind::kLeave) {
      roster->left(seat.rank);
      if (options.rank != 0) channel.send({.kind = MessageKind::kHeard});
    }
  }
  if (channel.is_open() || roster->has_left(seat.rank)) return;
  const std::string last = roster->last_known(seat.rank);
  note({seat.rank, seat.host,
        concat(channel.why_closed() == "closed"
                   ? "was killed or crashed: its connection closed"
                   : "cannot be reached: " + channel.why_closed(),
               last.empty() ? "" : "; last known: ", last)},
       options.rank);
}

/// What this rank's own threads want said.
void Watch::State::hear_own() {
  const std::lock_guard lock(mutex);
  if (to_say && !failure) {
    note(own(*to_say), options.rank);
    own_words = true;
  }
  // Rank 0 says it when all have, which is what the others wait for.
  if (leaving && !said_bye && options.rank != 0) {
    seats.front().channel.send({.kind = MessageKind::kLeave});
    said_bye = true;
  }
  if (leaving && options.rank == 0) roster->left(0);
}

/// The first counts.
void Watch::State::note(const RankFailure& found, int from) {
  if (failure) return;
  failure = found;
  teller = from;
}

bool Watch::State::all_have_left() const {
  for (const Seat& seat : seats) {
    if (!roster->has_left(seat.rank)) return false;
  }
  return options.rank != 0 || roster->has_left(0);
}

/// The last words, to those who do not know them.
void Watch::State::pass_on() {
  Message message{.kind = MessageKind::kLeave};
  if (failure) {
    message = {.kind = MessageKind::kFailure,
               .rank = static_cast<std::uint32_t>(failure->rank),
               .text = failure->why,
               .host = failure->host};
  } else if (options.rank != 0 || !all_have_left()) {
    return;
  }
  std::vector<Channel*> told_now;
  for (Seat& seat : seats) {
    if (failure && seat.rank == teller) continue;
    seat.channel.send(message);
    told_now.push_back(&seat.channel);
  }
  await_heard(told_now, after(failure ? deadlines.brief : deadlines.patience));
}

Watch::Watch(const WatchOptions& options,
             const std::function<std::string(const std::string&)>& broadcast) {
  check(options);
  state_ = std::make_unique<State>(options);
  State& state = *state_;
  const bool alone = options.size == 1;
  if (alone && !options.look) return;
  if (!alone) state.seats = meet(options, broadcast);
  state.bell.emplace();
  std::vector<Roster::Member> members;
  if (options.rank == 0) members.push_back({0, options.host});
  for (const Seat& seat : state.seats) {
    members.push_back({seat.rank, seat.host});
  }
  state.roster.emplace(members, state.deadlines.patience, Clock::now());
  const AllSignalsBlocked blocked;
  state.thread = std::thread([&state] { state.run(); });
}

Watch::~Watch() {
  State& state = *state_;
  if (!state.thread.joinable()) return;
  {
    const std::lock_guard lock(state.mutex);
    state.stopped = true;
  }
  state.bell->ring();
  state.thread.join();
}

void Watch::working(std::string_view on) {
  const std::lock_guard lock(state_->mutex);
  ++state_->progress.count;
  state_->progress.waiting = false;
  state_->progress.on = on;
}

void Watch::waiting(std::string_view in, std::uint64_t sequence) {
  const std::lock_guard lock(state_->mutex);
  ++state_->progress.count;
  state_->progress.waiting = true;
  state_->progress.sequence = sequence;
  state_->progress.on = in;
}

void Watch::fail(const std::string& why) {
  State& state = *state_;
  if (!state.thread.joinable() ||
      state.thread.get_id() == std::this_thread::get_id()) {
    return;
  }
  std::unique_lock lock(state.mutex);
  if (!state.to_say) state.to_say = why;
  state.bell->ring();
  // Longer than the thread takes, unless look() hangs.
  state.changed.wait_for(lock, 2 * state.deadlines.brief,
                         [&] { return state.told; });
}

void Watch::leave() {
  State& state = *state_;
  if (!state.thread.joinable() ||
      state.thread.get_id() == std::this_thread::get_id()) {
    return;
  }
  std::unique_lock lock(state.mutex);
  state.leaving = true;
  state.bell->ring();
  state.changed.wait(lock, [&] { return state.ended; });
}

}  // namespace osdn::dist
