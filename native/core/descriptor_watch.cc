#include "core/descriptor_watch.h"

#include <array>
#include <cerrno>

#if defined(__linux__) || defined(__APPLE__)
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#endif
#if defined(__linux__)
#include <sys/epoll.h>
#elif defined(__APPLE__)
#include <sys/event.h>
#endif

namespace stripelock {

#if defined(__linux__) || defined(__APPLE__)

namespace {

constexpr std::size_t kBatch = 64;

// The system's queue of events. Any thread may change it while another waits for events. A closed descriptor leaves the
// queue by itself. Both hold for epoll and for kqueue.
class Events {
 public:
#if defined(__linux__)
  using Event = epoll_event;

  bool open() {
    queue_ = epoll_create1(EPOLL_CLOEXEC);
    return queue_ >= 0;
  }
  bool add(int descriptor, DescriptorWatch& watch) const {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.ptr = &watch;
    return epoll_ctl(queue_, EPOLL_CTL_ADD, descriptor, &event) == 0;
  }
  void remove(int descriptor) const {
    // Not null, for kernels before 2.6.9.
    epoll_event event{};
    epoll_ctl(queue_, EPOLL_CTL_DEL, descriptor, &event);
  }
  int await(std::array<Event, kBatch>& events) const {
    return epoll_wait(queue_, events.data(), static_cast<int>(events.size()), -1);
  }
  static DescriptorWatch& watchOf(const Event& event) {
    return *static_cast<DescriptorWatch*>(event.data.ptr);
  }
#else
  using Event = struct kevent;

  bool open() {
    queue_ = kqueue();
    return queue_ >= 0 && fcntl(queue_, F_SETFD, FD_CLOEXEC) == 0;
  }
  bool add(int descriptor, DescriptorWatch& watch) const {
    return change(descriptor, EV_ADD | EV_CLEAR, &watch);
  }
  void remove(int descriptor) const { change(descriptor, EV_DELETE, nullptr); }
  int await(std::array<Event, kBatch>& events) const {
    return kevent(queue_, nullptr, 0, events.data(), static_cast<int>(events.size()), nullptr);
  }
  static DescriptorWatch& watchOf(const Event& event) { return *static_cast<DescriptorWatch*>(event.udata); }
#endif

 private:
#if defined(__APPLE__)
  bool change(int descriptor, std::uint16_t flags, DescriptorWatch* watch) const {
    struct kevent event {};
    EV_SET(&event, static_cast<uintptr_t>(descriptor), EVFILT_READ, flags, 0, 0, watch);
    return kevent(queue_, &event, 1, nullptr, 0, nullptr) == 0;
  }
#endif

  int queue_ = -1;
};

class Monitor {
 public:
  // nullptr where the system refuses the queue or the thread.
  static Monitor* instance() {
    // Never destroyed: its thread goes on until the process ends.
    static Monitor& monitor = *new Monitor();
    return monitor.running_.load() ? &monitor : nullptr;
  }

  const Events& events() const { return events_; }

 private:
  Monitor() {
    if (!events_.open()) return;
    running_.store(true);
    if (!startThread()) running_.store(false);
  }

  bool startThread() {
    // The thread takes no signals: the process's signal handlers may expect to run on one of the process's own threads.
    sigset_t all;
    sigset_t former;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &former) != 0) return false;
    pthread_t thread{};
    const auto run = [](void* self) -> void* {
      static_cast<Monitor*>(self)->run();
      return nullptr;
    };
    const bool started = pthread_create(&thread, nullptr, run, this) == 0;
    if (started) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &former, nullptr);
    return started;
  }

  void run() {
    std::array<Events::Event, kBatch> events{};
    for (;;) {
      const int count = events_.await(events);
      // Somebody has closed the queue. Without this the loop would never sleep again.
      if (count < 0 && errno != EINTR) break;
      const Nanoseconds time = now();
      bool again = false;
      for (int i = 0; i < count; ++i) {
        if (Events::watchOf(events[static_cast<std::size_t>(i)]).stir(time)) again = true;
      }
      if (again) pause();
    }
    running_.store(false);
  }

  // What stirs meanwhile is reported together afterwards.
  static void pause() {
    const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(DescriptorWatch::kQuiet)};
    nanosleep(&time, nullptr);
  }

  Events events_;
  std::atomic<bool> running_{false};
};

}  // namespace

bool DescriptorWatch::start(int descriptor) {
  if (descriptor < 0) return false;
  const Monitor* const monitor = Monitor::instance();
  stirred_.store(false);
  if (!monitor || !monitor->events().add(descriptor, *this)) return false;
  descriptor_ = descriptor;
  return true;
}

void DescriptorWatch::stop() {
  if (!active()) return;
  const Monitor* const monitor = Monitor::instance();
  if (monitor) monitor->events().remove(descriptor_);
  descriptor_ = -1;
}

#else

bool DescriptorWatch::start(int) { return false; }

void DescriptorWatch::stop() {}

#endif

}  // namespace stripelock
