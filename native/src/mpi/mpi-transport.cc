// The cross transport on the user's MPI library: one communicator per group, and non-blocking collectives that are tested
// until they are done, so that a failure elsewhere ends the wait. After a failure MPI is not called any more. MPI chooses
// the algorithms, and thus their price; where our own differ, the price is stated.
//
// MPI's counts have 32 bits: larger operations run in pieces, or member by member.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "../cross/cross-transport-offer.h"
#include "../group/futex.h"
#include "../group/group.h"
#include "mpi-library.h"

namespace hvd {

namespace {

MpiLibrary& library() { return MpiLibrary::instance(); }

constexpr size_t max_elements = size_t{1} << 28;
constexpr int unused_tag = 2;
constexpr size_t max_count = std::numeric_limits<int>::max();

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::uint8: return MPI_UINT8_T;
    case DType::int8: return MPI_INT8_T;
    case DType::uint16: return MPI_UINT16_T;
    case DType::int16: return MPI_INT16_T;
    case DType::int32: return MPI_INT32_T;
    case DType::int64: return MPI_INT64_T;
    case DType::float32: return MPI_FLOAT;
    case DType::float64: return MPI_DOUBLE;
    case DType::boolean: return MPI_UINT8_T;
    case DType::float16:
    case DType::bfloat16: return MPI_UINT16_T;
  }
  return MPI_BYTE;
}

// Our kernels as an MPI operation.
template <DType dtype, Op op>
void combine(void* in, void* inout, int* count, MPI_Datatype*) {
  const void* sources[] = {in, inout};
  reduce(inout, sources, 2, static_cast<size_t>(*count), dtype, op, 1);
}

template <DType dtype>
MPI_User_function* combine_by(Op op) {
  switch (op) {
    case Op::sum: return combine<dtype, Op::sum>;
    case Op::min: return combine<dtype, Op::min>;
    case Op::max: return combine<dtype, Op::max>;
    case Op::product: return combine<dtype, Op::product>;
  }
  return nullptr;
}

// Null if MPI's operation does the same.
MPI_User_function* own_function(DType dtype, Op op) {
  const bool compares = op == Op::min || op == Op::max;  // src/tensor/reduce.ts defines what happens to NaN
  switch (dtype) {
    case DType::float16: return combine_by<DType::float16>(op);
    case DType::bfloat16: return combine_by<DType::bfloat16>(op);
    case DType::boolean: return combine_by<DType::boolean>(op);
    // Some builds of Open MPI add short integers with saturating instructions; ours wrap.
    case DType::uint8: return compares ? nullptr : combine_by<DType::uint8>(op);
    case DType::int8: return compares ? nullptr : combine_by<DType::int8>(op);
    case DType::uint16: return compares ? nullptr : combine_by<DType::uint16>(op);
    case DType::int16: return compares ? nullptr : combine_by<DType::int16>(op);
    case DType::float32: return compares ? combine_by<DType::float32>(op) : nullptr;
    case DType::float64: return compares ? combine_by<DType::float64>(op) : nullptr;
    default: return nullptr;
  }
}

// Operations are created once and live as long as the process. Returns a code of MPI, or `gave_up`.
template <class GivesUp>
int find_op(DType dtype, Op op, const GivesUp& gives_up, MPI_Op& found) {
  MPI_User_function* function = own_function(dtype, op);
  if (!function) {
    found = op == Op::sum ? MPI_SUM : op == Op::min ? MPI_MIN : op == Op::max ? MPI_MAX : MPI_PROD;
    return MPI_SUCCESS;
  }
  static PatientMutex mutex;
  static MPI_Op made[dtype_count][8];
  static bool is_made[dtype_count][8];
  if (!mutex.lock(gives_up)) return MpiLibrary::gave_up;
  MPI_Op& own = made[static_cast<size_t>(dtype)][static_cast<size_t>(op)];
  bool& is_own_made = is_made[static_cast<size_t>(dtype)][static_cast<size_t>(op)];
  int code = MPI_SUCCESS;
  if (!is_own_made) code = library().locked([&] { return MPI_Op_create(function, 1, &own); }, gives_up);
  is_own_made = code == MPI_SUCCESS;
  found = own;
  mutex.unlock();
  return code;
}

class MpiTransport final : public CrossTransport {
 public:
  MpiTransport(Control& control, MPI_Comm communicator, int size, int index)
      : control_(control), communicator_(communicator), size_(size), index_(index) {}

  ~MpiTransport() override {
    // Freeing does not wait in practice, but MPI must not be called after a failure or after its end. The control block may
    // be closed by now.
    if (is_broken_ || !library().is_usable()) return;
    const int64_t until = monotonic_ns() + 1'000'000'000;
    library().locked([&] { return MPI_Comm_free(&communicator_); }, [&] { return monotonic_ns() > until; });
  }

  Status allreduce(char* data, size_t count, DType dtype, Op op, const Patience& patience) override {
    MPI_Op operation;
    if (Status status = find(dtype, op, patience, operation); status != Status::done) return status;
    for (size_t at = 0; at < count; at += max_elements) {
      const size_t piece = std::min(max_elements, count - at);
      char* part = data + at * element_bytes(dtype);
      Status status = run(patience, [&](MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, part, static_cast<int>(piece), mpi_type(dtype), operation, communicator_, request);
      });
      if (status != Status::done) return status;
    }
    return Status::done;
  }

  Status reducescatter(char* data, const std::vector<size_t>& counts, DType dtype, Op op, const Patience& patience) override {
    const size_t element = element_bytes(dtype);
    const size_t total = sum(counts), start = sum_before(counts, index_), mine = counts[static_cast<size_t>(index_)];
    MPI_Op operation;
    if (Status status = find(dtype, op, patience, operation); status != Status::done) return status;
    if (scratch_.size() < mine * element + 1) scratch_.resize(mine * element + 1);
    if (total <= max_count) {
      const std::vector<int> small(counts.begin(), counts.end());
      Status status = run(patience, [&](MPI_Request* request) {
        return MPI_Ireduce_scatter(data, scratch_.data(), small.data(), mpi_type(dtype), operation, communicator_, request);
      });
      if (status != Status::done) return status;
    } else {
      for (int root = 0; root < size_; root++) {
        const size_t first = sum_before(counts, root), length = counts[static_cast<size_t>(root)];
        for (size_t at = 0; at < length; at += max_elements) {
          const size_t piece = std::min(max_elements, length - at);
          Status status = run(patience, [&](MPI_Request* request) {
            return MPI_Ireduce(data + (first + at) * element, scratch_.data() + (root == index_ ? at * element : 0),
                               static_cast<int>(piece), mpi_type(dtype), operation, root, communicator_, request);
          });
          if (status != Status::done) return status;
        }
      }
    }
    std::memcpy(data + start * element, scratch_.data(), mine * element);
    return Status::done;
  }

  Status allgather(char* data, const std::vector<size_t>& bytes, const Patience& patience) override {
    if (sum(bytes) <= max_count) {
      const std::vector<int> counts(bytes.begin(), bytes.end()), starts = starts_of(bytes);
      return run(patience, [&](MPI_Request* request) {
        return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, data, counts.data(), starts.data(), MPI_BYTE, communicator_, request);
      });
    }
    for (int root = 0; root < size_; root++) {
      Status status = broadcast(data + sum_before(bytes, root), bytes[static_cast<size_t>(root)], root, patience);
      if (status != Status::done) return status;
    }
    return Status::done;
  }

  Status broadcast(char* data, size_t bytes, int root, const Patience& patience) override {
    for (size_t at = 0; at < bytes; at += max_elements) {
      const size_t piece = std::min(max_elements, bytes - at);
      Status status = run(patience, [&](MPI_Request* request) {
        return MPI_Ibcast(data + at, static_cast<int>(piece), MPI_BYTE, root, communicator_, request);
      });
      if (status != Status::done) return status;
    }
    return Status::done;
  }

  Status alltoall(const char* in, const std::vector<size_t>& send, char* out, const std::vector<size_t>& receive,
                  const Patience& patience) override {
    // N-1 messages, every byte sent once. Sums of sizes differ between members, so they cannot choose the algorithm.
    const int64_t end = monotonic_ns() + patience.timeout_ns;
    std::vector<MPI_Request> requests;
    int code = MPI_SUCCESS;
    const size_t mine = static_cast<size_t>(index_);
    if (send[mine] > 0) std::memcpy(out + sum_before(receive, index_), in + sum_before(send, index_), send[mine]);
    for (int step = 1; step < size_ && code == MPI_SUCCESS; step++) {
      const int from = (index_ + size_ - step) % size_, to = (index_ + step) % size_;
      each_piece(receive, from, [&](size_t start, int length) {
        if (code == MPI_SUCCESS)
          code = add(requests, end, [&](MPI_Request* request) {
            return MPI_Irecv(out + start, length, MPI_BYTE, from, 1, communicator_, request);
          });
      });
      each_piece(send, to, [&](size_t start, int length) {
        if (code == MPI_SUCCESS)
          code = add(requests, end, [&](MPI_Request* request) {
            return MPI_Isend(in + start, length, MPI_BYTE, to, 1, communicator_, request);
          });
      });
    }
    if (code != MPI_SUCCESS) return broken(code, end);
    return wait(requests, patience);
  }

  // A send is done when MPI has taken its bytes; they may still wait there for a connection.
  void keep_going() override {
    if (is_broken_ || control_.failed()) return;
    int is_there = 0;
    library().locked([&] { return MPI_Iprobe(MPI_ANY_SOURCE, unused_tag, communicator_, &is_there, MPI_STATUS_IGNORE); },
                     [] { return true; });
  }

  void stop() override { stop_.store(true, std::memory_order_release); }
  int culprit() const override { return -1; }  // MPI does not report which member it waits for
  int errno_value() const override { return EIO; }

 private:
  static size_t sum(const std::vector<size_t>& list) {
    size_t total = 0;
    for (size_t each : list) total += each;
    return total;
  }
  static size_t sum_before(const std::vector<size_t>& list, int end) {
    size_t total = 0;
    for (int i = 0; i < end; i++) total += list[static_cast<size_t>(i)];
    return total;
  }
  static std::vector<int> starts_of(const std::vector<size_t>& bytes) {
    std::vector<int> starts;
    for (size_t i = 0; i < bytes.size(); i++) starts.push_back(static_cast<int>(sum_before(bytes, static_cast<int>(i))));
    return starts;
  }
  template <class Visit>
  static void each_piece(const std::vector<size_t>& bytes, int member, const Visit& visit) {
    const size_t start = sum_before(bytes, member), length = bytes[static_cast<size_t>(member)];
    for (size_t at = 0; at < length; at += max_elements)
      visit(start + at, static_cast<int>(std::min(max_elements, length - at)));
  }

  // Whether waiting has become pointless: stopped, failed or timeout; else `done`.
  Status check(int64_t end) const {
    return stop_.load(std::memory_order_acquire) ? Status::stopped
           : control_.failed()                   ? Status::failed
           : monotonic_ns() > end                ? Status::timeout
                                                 : Status::done;
  }

  // `end`: when to give up if another thread does not return from MPI.
  template <class Call>
  int locked(int64_t end, const Call& call) {
    return library().locked(call, [&] { return check(end) != Status::done; });
  }

  Status find(DType dtype, Op op, const Patience& patience, MPI_Op& operation) {
    const int64_t end = monotonic_ns() + patience.timeout_ns;
    const int code = find_op(dtype, op, [&] { return check(end) != Status::done; }, operation);
    return code == MPI_SUCCESS ? Status::done : broken(code, end);
  }

  template <class Begin>
  int add(std::vector<MPI_Request>& requests, int64_t end, const Begin& begin) {
    requests.push_back(MPI_REQUEST_NULL);
    return locked(end, [&] { return begin(&requests.back()); });
  }

  template <class Begin>
  Status run(const Patience& patience, const Begin& begin) {
    if (control_.failed()) return Status::failed;
    const int64_t end = monotonic_ns() + patience.timeout_ns;
    std::vector<MPI_Request> requests;
    const int code = add(requests, end, begin);
    return code == MPI_SUCCESS ? wait(requests, patience) : broken(code, end);
  }

  // MPI moves bytes only during calls, so sleeping costs bandwidth: yield for a long time, then sleep briefly.
  Status wait(std::vector<MPI_Request>& requests, const Patience& patience) {
    constexpr int64_t yield_at_least_ns = 5'000'000;
    const int64_t began = monotonic_ns(), end = began + patience.timeout_ns;
    int64_t next_check = began + 500'000;
    for (int tests = 0;; tests++) {
      int is_done = 0;
      const int code = locked(end, [&] {
        return MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done, MPI_STATUSES_IGNORE);
      });
      if (code != MPI_SUCCESS) return broken(code, end);
      if (is_done) return Status::done;
      if (tests < patience.spins) {
        relax();
        continue;
      }
      const int64_t now = monotonic_ns();
      if (now >= next_check) {
        next_check = now + 500'000;
        if (Status status = check(end); status != Status::done) {
          give_up();
          return status;
        }
      }
      if (now - began < std::max(yield_at_least_ns, patience.yield_ns))
        sched_yield();
      else
        usleep(50);
    }
  }

  // The requests are abandoned: MPI is not called any more, not even to finalize it.
  void give_up() {
    is_broken_ = true;
    library().finish(false);
  }

  Status broken(int code, int64_t end) {
    give_up();
    if (code == MpiLibrary::gave_up) return check(end);
    // The control block soon knows of a peer that has died; that is more useful than MPI's error code.
    for (int64_t until = monotonic_ns() + 300'000'000; monotonic_ns() < until; usleep(1000))
      if (control_.failed()) return Status::failed;
    return Status::system_error;
  }

  Control& control_;
  MPI_Comm communicator_;
  const int size_;
  const int index_;
  std::atomic<bool> stop_{false};
  bool is_broken_ = false;
  std::vector<char> scratch_;
};

// Name and version.
std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string name(text, static_cast<size_t>(length));
#if defined(OPEN_MPI)
  return name.substr(0, name.find(','));  // "Open MPI v4.1.4, package: …"
#else
  for (char& each : name)
    if (each == '\t') each = ' ';
  return name.substr(0, name.find('\n'));  // "MPICH Version:\t4.0.2\n…"
#endif
}

class MpiOffer final : public CrossTransportOffer {
 public:
  explicit MpiOffer(const CrossTransportMember& member) : member_(member) {}

  // "<library>/<rank in MPI_COMM_WORLD>"
  std::string text() const override { return library_name() + "/" + std::to_string(library().rank()); }

  std::shared_ptr<CrossTransport> open(const std::vector<std::string>& texts, int64_t timeout_ns, std::string& error) override {
    std::vector<int> ranks;
    for (const std::string& text : texts) {
      const size_t slash = text.rfind('/');
      if (slash == std::string::npos || text.substr(0, slash) != library_name()) {
        error = "members use different MPI libraries: " + library_name() + " and " + text.substr(0, slash);
        return nullptr;
      }
      ranks.push_back(std::stoi(text.substr(slash + 1)));
    }
    std::vector<int> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    if (std::unique(sorted.begin(), sorted.end()) != sorted.end()) {
      error = "several members have the same rank in MPI_COMM_WORLD, so they were not started by one mpirun";
      return nullptr;
    }
    struct Result {
      int code = MPI_SUCCESS;
      MPI_Comm communicator = MPI_COMM_NULL;
    };
    auto result = std::make_shared<Result>();
    const bool is_over = library().run(
        [result, ranks](const std::atomic<bool>& is_abandoned) {
          MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
          auto create = [&] {
            MPI_Comm_group(MPI_COMM_WORLD, &all);
            int code = MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members);
            if (code == MPI_SUCCESS) code = MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, &result->communicator);
            if (members != MPI_GROUP_NULL) MPI_Group_free(&members);
            MPI_Group_free(&all);
            if (code == MPI_SUCCESS) MPI_Comm_set_errhandler(result->communicator, MPI_ERRORS_RETURN);
            return code;
          };
          result->code = library().locked(create, [&] { return is_abandoned.load(std::memory_order_acquire); });
        },
        timeout_ns, [this] { return member_.is_over(); });
    if (!is_over)
      error = member_.is_over() ? "MPI_Comm_create_group was given up" : "MPI_Comm_create_group did not end in time";
    else if (result->code != MPI_SUCCESS) error = "MPI_Comm_create_group failed: " + mpi_error(result->code);
    else return std::make_shared<MpiTransport>(member_.control, result->communicator, member_.size, member_.index);
    return nullptr;
  }

 private:
  const CrossTransportMember member_;
};

}  // namespace

std::unique_ptr<CrossTransportOffer> offer_cross_transport(const CrossTransportMember& member, std::string& error) {
  if (!library().start(member.is_single_threaded, member.timeout_ns, [&] { return member.is_over(); }, error)) return nullptr;
  return std::make_unique<MpiOffer>(member);
}

void close_cross_transports(bool is_healthy) { library().finish(is_healthy); }

}  // namespace hvd
