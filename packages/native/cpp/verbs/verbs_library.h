// The RDMA libraries of the machine, opened at run time.
//
// Nothing here is linked against libibverbs or librdmacm: a machine without them still loads the addon and can be
// told why RDMA is not there. The data path (post, poll, arm) needs no symbol; verbs.h calls it through the context.
#pragma once

#include <memory>
#include <string>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

namespace verbmq {

/// Where the libraries are. The defaults are the run-time names; tests may name another file, nothing else does.
struct library_paths {
  std::string ibverbs = "libibverbs.so.1";
  std::string rdmacm = "librdmacm.so.1";
};

/// Every function the addon calls, by its library name without the prefix. All are set once a library is open.
/// Two of them are older signatures than verbs.h shows, because verbs.h hides them behind macros.
struct verbs_library {
  // libibverbs
  ibv_device** (*get_device_list)(int*) = nullptr;
  void (*free_device_list)(ibv_device**) = nullptr;
  const char* (*get_device_name)(ibv_device*) = nullptr;
  ibv_context* (*open_device)(ibv_device*) = nullptr;
  int (*close_device)(ibv_context*) = nullptr;
  int (*query_device)(ibv_context*, ibv_device_attr*) = nullptr;
  int (*query_port_compat)(ibv_context*, uint8_t, void*) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context*) = nullptr;
  int (*dealloc_pd)(ibv_pd*) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
  ibv_comp_channel* (*create_comp_channel)(ibv_context*) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel*) = nullptr;
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int) = nullptr;
  int (*destroy_cq)(ibv_cq*) = nullptr;
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void**) = nullptr;
  void (*ack_cq_events)(ibv_cq*, unsigned int) = nullptr;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int) = nullptr;
  int (*query_qp)(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) = nullptr;
  int (*destroy_plain_qp)(ibv_qp*) = nullptr;
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*) = nullptr;
  int (*modify_srq)(ibv_srq*, ibv_srq_attr*, int) = nullptr;
  int (*destroy_srq)(ibv_srq*) = nullptr;
  int (*get_async_event)(ibv_context*, ibv_async_event*) = nullptr;
  void (*ack_async_event)(ibv_async_event*) = nullptr;
  int (*fork_init)() = nullptr;
  // Absent before rdma-core 35; then fork protection is switched on without asking.
  int (*is_fork_initialized)() = nullptr;

  // librdmacm
  rdma_event_channel* (*create_event_channel)() = nullptr;
  void (*destroy_event_channel)(rdma_event_channel*) = nullptr;
  int (*create_id)(rdma_event_channel*, rdma_cm_id**, void*, rdma_port_space) = nullptr;
  int (*destroy_id)(rdma_cm_id*) = nullptr;
  int (*bind_addr)(rdma_cm_id*, sockaddr*) = nullptr;
  int (*resolve_addr)(rdma_cm_id*, sockaddr*, sockaddr*, int) = nullptr;
  int (*resolve_route)(rdma_cm_id*, int) = nullptr;
  int (*create_qp)(rdma_cm_id*, ibv_pd*, ibv_qp_init_attr*) = nullptr;
  void (*destroy_qp)(rdma_cm_id*) = nullptr;
  int (*connect)(rdma_cm_id*, rdma_conn_param*) = nullptr;
  int (*listen)(rdma_cm_id*, int) = nullptr;
  int (*accept)(rdma_cm_id*, rdma_conn_param*) = nullptr;
  int (*reject)(rdma_cm_id*, const void*, uint8_t) = nullptr;
  int (*disconnect)(rdma_cm_id*) = nullptr;
  int (*get_cm_event)(rdma_event_channel*, rdma_cm_event**) = nullptr;
  int (*ack_cm_event)(rdma_cm_event*) = nullptr;
  __be16 (*get_src_port)(rdma_cm_id*) = nullptr;
  ibv_context** (*get_devices)(int*) = nullptr;
  void (*free_devices)(ibv_context**) = nullptr;
  const char* (*event_str)(rdma_cm_event_type) = nullptr;

  /// Port attributes in today's layout, whichever interface the library offers. Returns a positive errno or 0.
  int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const;

  /// Whether pages that were registered are missing in the children of a fork: then only whole pages that hold nothing
  /// else may be registered.
  bool fork_hides_pages() const;

  /// Opens both libraries and prepares them for fork where the kernel needs that. A pair of paths is opened once a
  /// process and stays open: providers keep threads and handlers that must not lose their code.
  /// Throws verbs_error with reason "library-missing" and the loader's own words, or the name of the symbol missing.
  static std::shared_ptr<const verbs_library> open(const library_paths& paths);
};

}  // namespace verbmq
