// Failure of a verbs or rdma_cm call, with everything a user needs to act on it.
#pragma once

#include <stdexcept>
#include <string>

struct ibv_wc;

namespace verbmq {

/// Thrown by every class in this folder. `reason()` is a stable word that JavaScript maps to an error code.
class verbs_error : public std::runtime_error {
 public:
  /// `call` is the library function; `error_number` a positive errno, 0 when there is none.
  verbs_error(std::string reason, std::string call, int error_number, std::string message);

  const std::string& reason() const noexcept { return reason_; }
  const std::string& call() const noexcept { return call_; }
  int error_number() const noexcept { return error_number_; }

 private:
  std::string reason_;
  std::string call_;
  int error_number_;
};

/// Builds the error of a call that failed with `error_number`, choosing the reason from the errno and from what the
/// process is allowed to do (a small RLIMIT_MEMLOCK turns ENOMEM into "memlock").
verbs_error call_failed(const char* call, int error_number, const std::string& what = {});

/// The positive errno behind what a verb returned, 0 for success. ibv_post_send(3) and its kin promise the errno itself;
/// providers of iWARP devices return it negated (cxgb4, siw), or -1 with it in `errno` where the kernel refused (siw).
int errno_of(int result) noexcept;

/// Throws "no-permission" when `file` exists and may not be opened for reading and writing. Asked before the libraries
/// are: they take a refusal for a file that udev has yet to make, and wait for it for five seconds.
void check_device_file(const std::string& file);

/// The bytes this process may lock, or UINT64_MAX when there is no limit.
unsigned long long memlock_limit_bytes() noexcept;

/// True when the process may lock any amount of memory whatever RLIMIT_MEMLOCK says (CAP_IPC_LOCK).
bool may_ignore_memlock() noexcept;

/// A stable lower-case name for a work completion status, `status-N` for a value newer than this code.
std::string completion_status_name(int status);

}  // namespace verbmq
