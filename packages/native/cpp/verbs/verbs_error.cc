#include "verbs/verbs_error.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

#include <infiniband/verbs.h>

namespace verbmq {

namespace {

// Below this, whether a registration fits depends on the device's own needs as well: completion queues and
// doorbell pages are locked too. Above it, ENOMEM is more likely a limit of the device.
constexpr unsigned long long small_memlock_bytes = 64ull << 20;

constexpr int cap_ipc_lock = 14;

const char* reason_for(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
      return "no-permission";
    case ENOMEM:
      return !may_ignore_memlock() && memlock_limit_bytes() < small_memlock_bytes ? "memlock" : "no-resources";
    case ENODEV:
      return "no-device";
    case EADDRINUSE:
      return "address-in-use";
    case EADDRNOTAVAIL:
      return "address-not-available";
    case ENETUNREACH:
    case EHOSTUNREACH:
      return "unreachable";
    default:
      return "verbs";
  }
}

}  // namespace

verbs_error::verbs_error(std::string reason, std::string call, int error_number, std::string message)
    : std::runtime_error(std::move(message)),
      reason_(std::move(reason)),
      call_(std::move(call)),
      error_number_(error_number) {}

verbs_error call_failed(const char* call, int error_number, const std::string& what) {
  std::string message = std::string(call) + " failed: " + std::strerror(error_number);
  if (!what.empty()) message += " (" + what + ")";
  const char* reason = reason_for(error_number);
  if (std::strcmp(reason, "memlock") == 0) {
    message += "; this process may lock only " + std::to_string(memlock_limit_bytes() / 1024) +
               " KiB of memory, raise it with `ulimit -l`";
  }
  return verbs_error(reason, call, error_number, message);
}

int errno_of(int result) noexcept {
  if (result >= 0) return result;
  return result == -1 && errno != 0 ? errno : -result;
}

void check_device_file(const std::string& file) {
  if (access(file.c_str(), R_OK | W_OK) == 0 || (errno != EACCES && errno != EPERM)) return;
  throw verbs_error("no-permission", "open", errno, file + " may not be opened by this user");
}

unsigned long long memlock_limit_bytes() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return ULLONG_MAX;
  return limit.rlim_cur;
}

bool may_ignore_memlock() noexcept {
  // The effective capability set as the kernel prints it; libcap is not worth a dependency for one bit.
  std::FILE* status = std::fopen("/proc/self/status", "re");
  if (status == nullptr) return false;
  char line[256];
  unsigned long long effective = 0;
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "CapEff: %llx", &effective) == 1) break;
  }
  std::fclose(status);
  return ((effective >> cap_ipc_lock) & 1) != 0;
}

std::string completion_status_name(int status) {
  switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_LOC_LEN_ERR: return "local-length-error";
    case IBV_WC_LOC_QP_OP_ERR: return "local-queue-pair-operation-error";
    case IBV_WC_LOC_EEC_OP_ERR: return "local-eec-operation-error";
    case IBV_WC_LOC_PROT_ERR: return "local-protection-error";
    case IBV_WC_WR_FLUSH_ERR: return "flushed";
    case IBV_WC_MW_BIND_ERR: return "memory-window-bind-error";
    case IBV_WC_BAD_RESP_ERR: return "bad-response";
    case IBV_WC_LOC_ACCESS_ERR: return "local-access-error";
    case IBV_WC_REM_INV_REQ_ERR: return "remote-invalid-request";
    case IBV_WC_REM_ACCESS_ERR: return "remote-access-error";
    case IBV_WC_REM_OP_ERR: return "remote-operation-error";
    case IBV_WC_RETRY_EXC_ERR: return "retries-exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "receiver-not-ready-retries-exceeded";
    case IBV_WC_LOC_RDD_VIOL_ERR: return "local-rdd-violation";
    case IBV_WC_REM_INV_RD_REQ_ERR: return "remote-invalid-rd-request";
    case IBV_WC_REM_ABORT_ERR: return "remote-aborted";
    case IBV_WC_FATAL_ERR: return "fatal-error";
    case IBV_WC_RESP_TIMEOUT_ERR: return "response-timeout";
    case IBV_WC_GENERAL_ERR: return "general-error";
    default: return "status-" + std::to_string(status);
  }
}

}  // namespace verbmq
