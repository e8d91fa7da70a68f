// The transport over MPI, any implementation from MPI 3.0 on.

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "arrivals.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/host.h"
#include "osdn/dist/launcher.h"
#include "osdn/dist/transport.h"
#include "osdn/dist/world.h"

namespace osdn::dist {

namespace {

void check(int status, const std::string& what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw LinkError(concat("MPI failed in ", what, ": ", text));
}

// MPI counts in int: long parts go in pieces.
constexpr std::int64_t kPiece = std::int64_t{1} << 30;

struct Job {
  std::shared_ptr<Pending> pending;
  std::function<void()> work;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    thread_ = std::thread([this] { run(); });
    started_ = queue("joining the other ranks", [this] { start(); });
  }
  ~MpiTransport() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (abandoned_) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  void wait_for_start(std::chrono::duration<double> timeout) {
    abandoned_ = true;
    if (!started_->wait_for(timeout)) {
      throw Error(concat("the ranks have not come together within ",
                         timeout.count(), " s: ", who_is_missing(),
                         " (OSDN_START_TIMEOUT gives them more seconds)"));
    }
    abandoned_ = false;
  }

  Place place() const override { return place_; }

  Ticket all_gather(std::string what, std::byte* parts,
                    std::int64_t bytes) override {
    return queue(what, [this, parts, bytes, what] {
      const std::byte* const mine = parts + place_.rank * bytes;
      swap_with_all([=](int) { return mine; }, parts, bytes, what);
    });
  }

  Ticket exchange(std::string what, const std::byte* from, std::byte* into,
                  std::int64_t bytes) override {
    return queue(what, [this, from, into, bytes, what] {
      std::copy_n(from + place_.rank * bytes, bytes,
                  into + place_.rank * bytes);
      swap_with_all([=](int rank) { return from + rank * bytes; }, into, bytes,
                    what);
    });
  }

  Ticket then(std::string what, std::function<void()> work) override {
    return queue(std::move(what), std::move(work));
  }

  Ticket part() override {
    return queue("parting from the other ranks",
                 [] { check(MPI_Finalize(), "MPI_Finalize"); });
  }

  void abandon() override { abandoned_ = true; }

 private:
  void start() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided),
          "MPI_Init_thread");
    // A communicator of our own: errors come back as codes.
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN),
          "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(world_, &place_.rank), "MPI_Comm_rank");
    check(MPI_Comm_size(world_, &place_.size), "MPI_Comm_size");
    MPI_Comm local = MPI_COMM_NULL;
    check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, place_.rank,
                              MPI_INFO_NULL, &local),
          "MPI_Comm_split_type");
    check(MPI_Comm_rank(local, &place_.local_rank), "MPI_Comm_rank");
    check(MPI_Comm_size(local, &place_.local_size), "MPI_Comm_size");
    check(MPI_Comm_free(&local), "MPI_Comm_free");
    place_.host = host_name();
  }

  // `to(rank)` goes to each other rank, whose part of `into` comes from it.
  template <typename To>
  void swap_with_all(const To& to, std::byte* into, std::int64_t bytes,
                     const std::string& what) {
    std::vector<MPI_Request> requests;
    std::vector<int> senders;  // of every other request
    for (int rank = 0; rank < place_.size; ++rank) {
      if (rank == place_.rank) continue;
      for (std::int64_t begin = 0; begin < bytes; begin += kPiece) {
        const auto count = static_cast<int>(std::min(kPiece, bytes - begin));
        check(MPI_Irecv(into + rank * bytes + begin, count, MPI_BYTE, rank, 0,
                        world_, &requests.emplace_back()),
              what);
        senders.push_back(rank);
        check(MPI_Isend(to(rank) + begin, count, MPI_BYTE, rank, 0, world_,
                        &requests.emplace_back()),
              what);
      }
    }
    finish(requests, senders, what);
  }

  // Says whose part of the job has not come.
  void tell_lacking(const std::vector<MPI_Request>& requests,
                    const std::vector<int>& senders, const std::string& what) {
    std::vector<int> ranks;
    for (std::size_t i = 0; i < senders.size(); ++i) {
      int done = 0;
      check(MPI_Request_get_status(requests[2 * i], &done, MPI_STATUS_IGNORE),
            what);
      if (done == 0 && (ranks.empty() || ranks.back() != senders[i])) {
        ranks.push_back(senders[i]);
      }
    }
    current_->lacks(std::move(ranks));
  }

  // Waits without spinning: the cores are the computation's.
  void finish(std::vector<MPI_Request>& requests,
              const std::vector<int>& senders, const std::string& what) {
    using namespace std::chrono_literals;
    constexpr int kEager = 200;
    constexpr int kTell = 25 * kEager;  // a second
    for (int turn = 1;; ++turn) {
      int done = 0;
      check(MPI_Testall(static_cast<int>(requests.size()), requests.data(),
                        &done, MPI_STATUSES_IGNORE),
            what);
      if (done != 0) return;
      if (turn % kTell == 0) tell_lacking(requests, senders, what);
      if (turn < kEager) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(turn < 10 * kEager ? 20us : 200us);
      }
    }
  }

  Ticket queue(std::string what, std::function<void()> work) {
    auto pending = std::make_shared<Pending>(std::move(what));
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back({pending, std::move(work)});
    }
    changed_.notify_all();
    return pending;
  }

  void run() {
    show_arrival();
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      std::exception_ptr error;
      current_ = job.pending.get();
      try {
        job.work();
      } catch (...) {
        error = std::current_exception();
      }
      job.pending->finish(error);
      lock.lock();
    }
  }

  Place place_;
  MPI_Comm world_ = MPI_COMM_NULL;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  Pending* current_ = nullptr;  ///< the thread's own
  bool stop_ = false;
  std::atomic<bool> abandoned_{false};
  std::thread thread_;
  Ticket started_;
};

}  // namespace

std::unique_ptr<Transport> join_ranks(std::chrono::duration<double> timeout) {
  if (!launched_rank()) return nullptr;
  remember_launcher();
  auto transport = std::make_unique<MpiTransport>();
  transport->wait_for_start(timeout);
  return transport;
}

}  // namespace osdn::dist
