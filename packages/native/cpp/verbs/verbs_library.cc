#include "verbs/verbs_library.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

void* open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* detail = dlerror();
    throw verbs_error("library-missing", "dlopen", 0, detail != nullptr ? detail : "cannot load " + path);
  }
  return handle;
}

class symbol_reader {
 public:
  symbol_reader(void* handle, std::string path, std::string prefix)
      : handle_(handle), path_(std::move(path)), prefix_(std::move(prefix)) {}

  template <typename function>
  void optional(function& target, const char* name) const {
    void* symbol = dlsym(handle_, (prefix_ + name).c_str());
    static_assert(sizeof symbol == sizeof target, "a function pointer has the size of an object pointer");
    std::memcpy(&target, &symbol, sizeof symbol);
  }

  template <typename function>
  void required(function& target, const char* name) const {
    optional(target, name);
    if (target == nullptr) {
      throw verbs_error("library-missing", "dlsym", 0,
                        path_ + " has no symbol " + prefix_ + name + "; it is too old or not rdma-core");
    }
  }

 private:
  void* handle_;
  std::string path_;
  std::string prefix_;
};

void read_ibverbs(verbs_library& library, const symbol_reader& read) {
  read.required(library.get_device_list, "get_device_list");
  read.required(library.free_device_list, "free_device_list");
  read.required(library.get_device_name, "get_device_name");
  read.required(library.open_device, "open_device");
  read.required(library.close_device, "close_device");
  read.required(library.query_device, "query_device");
  read.required(library.query_port_compat, "query_port");
  read.required(library.alloc_pd, "alloc_pd");
  read.required(library.dealloc_pd, "dealloc_pd");
  read.required(library.reg_mr, "reg_mr");
  read.required(library.dereg_mr, "dereg_mr");
  read.required(library.create_comp_channel, "create_comp_channel");
  read.required(library.destroy_comp_channel, "destroy_comp_channel");
  read.required(library.create_cq, "create_cq");
  read.required(library.destroy_cq, "destroy_cq");
  read.required(library.get_cq_event, "get_cq_event");
  read.required(library.ack_cq_events, "ack_cq_events");
  read.required(library.modify_qp, "modify_qp");
  read.required(library.query_qp, "query_qp");
  read.required(library.destroy_plain_qp, "destroy_qp");
  read.required(library.create_srq, "create_srq");
  read.required(library.modify_srq, "modify_srq");
  read.required(library.destroy_srq, "destroy_srq");
  read.required(library.get_async_event, "get_async_event");
  read.required(library.ack_async_event, "ack_async_event");
  read.required(library.fork_init, "fork_init");
  read.optional(library.is_fork_initialized, "is_fork_initialized");
}

void read_rdmacm(verbs_library& library, const symbol_reader& read) {
  read.required(library.create_event_channel, "create_event_channel");
  read.required(library.destroy_event_channel, "destroy_event_channel");
  read.required(library.create_id, "create_id");
  read.required(library.destroy_id, "destroy_id");
  read.required(library.bind_addr, "bind_addr");
  read.required(library.resolve_addr, "resolve_addr");
  read.required(library.resolve_route, "resolve_route");
  read.required(library.create_qp, "create_qp");
  read.required(library.destroy_qp, "destroy_qp");
  read.required(library.connect, "connect");
  read.required(library.listen, "listen");
  read.required(library.accept, "accept");
  read.required(library.reject, "reject");
  read.required(library.disconnect, "disconnect");
  read.required(library.get_cm_event, "get_cm_event");
  read.required(library.ack_cm_event, "ack_cm_event");
  read.required(library.get_src_port, "get_src_port");
  read.required(library.get_devices, "get_devices");
  read.required(library.free_devices, "free_devices");
  read.required(library.event_str, "event_str");
}

// Since Linux 5.12 a fork copies pinned pages at once, and nothing is to be done. Before, a write by this process
// after a fork would leave the device writing to a page that the process no longer sees.
void prepare_for_fork(const verbs_library& library) {
  constexpr int disabled = 0;
  if (library.is_fork_initialized != nullptr && library.is_fork_initialized() != disabled) return;
  const int error_number = library.fork_init();
  // It has to come before the first registration.
  const char* remedy = error_number == EINVAL ? "this process has registered memory by other means before; start it with "
                                                "RDMAV_FORK_SAFE=1 in its environment"
                                              : "";
  if (error_number != 0) throw call_failed("ibv_fork_init", error_number, remedy);
}

}  // namespace

int verbs_library::query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const {
  std::memset(attributes, 0, sizeof *attributes);
  verbs_context* extended = verbs_get_ctx(context);
  if (extended != nullptr && extended->sz >= sizeof *extended - offsetof(verbs_context, query_port) &&
      extended->query_port != nullptr) {
    return extended->query_port(context, port, attributes, sizeof *attributes);
  }
  return query_port_compat(context, port, attributes);
}

bool verbs_library::fork_hides_pages() const {
  constexpr int unneeded = 2;
  return is_fork_initialized == nullptr || is_fork_initialized() != unneeded;
}

std::shared_ptr<const verbs_library> verbs_library::open(const library_paths& paths) {
  static std::mutex mutex;
  static auto* opened = new std::map<std::pair<std::string, std::string>, std::shared_ptr<const verbs_library>>();

  const std::lock_guard<std::mutex> lock(mutex);
  auto& entry = (*opened)[{paths.ibverbs, paths.rdmacm}];
  if (!entry) {
    auto library = std::make_shared<verbs_library>();
    read_ibverbs(*library, symbol_reader(open_library(paths.ibverbs), paths.ibverbs, "ibv_"));
    read_rdmacm(*library, symbol_reader(open_library(paths.rdmacm), paths.rdmacm, "rdma_"));
    prepare_for_fork(*library);
    entry = std::move(library);
  }
  return entry;
}

}  // namespace verbmq
