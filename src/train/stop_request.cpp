#include "osdn/train/stop_request.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <csignal>
#include <ctime>

#include "osdn/core/concat.h"
#include "osdn/core/env.h"
#include "osdn/core/error.h"
#include "osdn/report/format.h"

namespace osdn::train {

namespace {

// A handler may touch nothing but lock-free atomics.
std::atomic<int> stop_signal{0};
std::atomic<bool> interrupted{false};
std::atomic<bool> save_wanted{false};
static_assert(std::atomic<int>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

// Open MPI's mpirun, told to end, says so to its ranks by a SIGCONT; the
// SIGTERM comes only when they may have a second left. A user's SIGCONT comes
// from someone else, or after a stop, which shows in what the pulse missed.
std::atomic<pid_t> launcher{0};
std::atomic<std::int64_t> last_pulse_ms{0};
constexpr std::int64_t kMostPulseMs = 500;

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

extern "C" void on_continue(int /*number*/, siginfo_t* info,
                            void* /*context*/) {
  if (info->si_pid == launcher.load() &&
      now_ms() - last_pulse_ms.load() < kMostPulseMs) {
    int none = 0;
    stop_signal.compare_exchange_strong(none, SIGTERM);
  }
}

extern "C" void on_signal(int number) {
  if (number == SIGUSR1) {
    save_wanted = true;
    return;
  }
  if (number == SIGINT && interrupted.exchange(true)) {
    // Runs with SIGINT blocked; the default action follows on return.
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
    return;
  }
  int none = 0;
  stop_signal.compare_exchange_strong(none, number);
}

constexpr std::array<int, 4> kSignals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
std::array<struct sigaction, 4> previous{};

std::string_view signal_name(int number) {
  return number == SIGINT ? "SIGINT" : number == SIGHUP ? "SIGHUP" : "SIGTERM";
}

void change_mask(int how) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kSignals) {
    sigaddset(&set, number);
  }
  ::pthread_sigmask(how, &set, nullptr);
}

}  // namespace

void hold_stop_signals() {
  change_mask(SIG_BLOCK);
}

StopRequest::StopRequest(std::optional<double> stop_after_s,
                         std::optional<double> signal_in_s)
    : stop_after_s_(stop_after_s), start_(std::chrono::steady_clock::now()) {
  if (stop_after_s) {
    limit_ = concat("--stop-after ", report::format_duration(*stop_after_s));
  }
  if (signal_in_s && (!stop_after_s || *signal_in_s < *stop_after_s)) {
    stop_after_s_ = signal_in_s;
    limit_ = "--signal-before the scheduler's time limit";
  }
  stop_signal = 0;
  interrupted = false;
  save_wanted = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &action, &previous[i]);
    if (kSignals[i] == SIGHUP && previous[i].sa_handler == SIG_IGN) {
      ::sigaction(SIGHUP, &previous[i], nullptr);  // nohup
    }
  }
  if (env("OMPI_COMM_WORLD_RANK")) {
    listen_to_launcher();
  }
  change_mask(SIG_UNBLOCK);
}

void StopRequest::listen_to_launcher() {
  launcher = ::getppid();
  last_pulse_ms = now_ms();
  pulse_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, std::chrono::milliseconds(50),
                            [this] { return end_; })) {
      last_pulse_ms = now_ms();
    }
  });
  struct sigaction action {};
  action.sa_sigaction = on_continue;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  ::sigaction(SIGCONT, &action, nullptr);
}

StopRequest::~StopRequest() {
  if (pulse_.joinable()) {
    std::signal(SIGCONT, SIG_DFL);
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    ended_.notify_all();
    pulse_.join();
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &previous[i], nullptr);
  }
}

std::optional<std::string> StopRequest::stop() const {
  if (const int number = stop_signal.load(); number != 0) {
    return std::string(signal_name(number));
  }
  const std::optional<double> left = seconds_left();
  if (left && *left <= 0) {
    return limit_;
  }
  return {};
}

bool StopRequest::take_save() {
  return save_wanted.exchange(false);
}

std::optional<double> StopRequest::seconds_left() const {
  if (!stop_after_s_) {
    return {};
  }
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start_;
  return *stop_after_s_ - elapsed.count();
}

double seconds_until_limit(double before_s) {
  const std::optional<std::string> end = env("SLURM_JOB_END_TIME");
  double unix_end = 0;
  if (!end ||
      std::from_chars(end->data(), end->data() + end->size(), unix_end).ptr !=
          end->data() + end->size()) {
    throw Error(
        concat(
            "--signal-before: there is no time limit to stop before; "
            "Slurm's SLURM_JOB_END_TIME is ",
            end ? concat("\"", *end, "\"") : "not set",
            ". Where Slurm does not set it: export SLURM_JOB_END_TIME=$(date "
            "-d \"$(squeue -h -j $SLURM_JOB_ID -o %e)\" +%s); or use "
            "--stop-after, or let the scheduler send SIGTERM"),
        ExitCode::kUsage);
  }
  const std::chrono::duration<double> now =
      std::chrono::system_clock::now().time_since_epoch();
  return unix_end - before_s - now.count();
}

double parse_duration(std::string_view text) {
  const Error problem(
      concat("\"", text,
             "\" is not a duration; write seconds (90, 90s), minutes (15m), "
             "hours (2h) or several of these (1h30m)"),
      ExitCode::kUsage);
  double seconds = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  if (at == end) {
    throw problem;
  }
  while (at != end) {
    double number = 0;
    const auto [next, status] = std::from_chars(at, end, number);
    if (status != std::errc() || !(number >= 0) || !std::isfinite(number)) {
      throw problem;
    }
    at = next;
    double unit = 1;
    if (at != end) {
      switch (*at++) {
        case 's':
          break;
        case 'm':
          unit = 60;
          break;
        case 'h':
          unit = 3600;
          break;
        default:
          throw problem;
      }
    }
    seconds += unit * number;
  }
  return seconds;
}

}  // namespace osdn::train
