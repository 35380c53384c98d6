#include "verbs/device_context.h"

#include <cerrno>
#include <utility>

#include "verbs/verbs_error.h"

namespace verbmq {

namespace {

// Vendor that siw reports: "bmt" (drivers/infiniband/sw/siw/siw.h in Linux).
constexpr uint32_t siw_vendor_id = 0x626d74;

std::string device_file(const ibv_device* device) { return std::string("/dev/infiniband/") + device->dev_name; }

}  // namespace

device_context::device_context(std::shared_ptr<const verbs_library> library, ibv_device* device)
    : library_(std::move(library)), context_(nullptr), owned_(true) {
  check_device_file(device_file(device));
  errno = 0;
  context_ = library_->open_device(device);
  if (context_ == nullptr) {
    // Some providers fail without an errno; the device file is then the likeliest cause of all.
    const int error_number = errno != 0 ? errno : EIO;
    throw call_failed("ibv_open_device", error_number, device_file(device));
  }
}

device_context::device_context(std::shared_ptr<const verbs_library> library, ibv_context* borrowed)
    : library_(std::move(library)), context_(borrowed), owned_(false) {}

device_context::~device_context() {
  if (owned_) library_->close_device(context_);
}

std::string device_context::name() const { return library_->get_device_name(context_->device); }

bool device_context::is_iwarp() const noexcept { return context_->device->transport_type == IBV_TRANSPORT_IWARP; }

ibv_device_attr device_context::attributes() const {
  ibv_device_attr attributes{};
  const int error_number = library_->query_device(context_, &attributes);
  if (error_number != 0) throw call_failed("ibv_query_device", error_number, name());
  return attributes;
}

ibv_port_attr device_context::port(uint8_t number) const {
  ibv_port_attr attributes{};
  const int error_number = library_->query_port(context_, number, &attributes);
  if (error_number != 0) throw call_failed("ibv_query_port", error_number, name() + " port " + std::to_string(number));
  return attributes;
}

bool is_soft_iwarp(const ibv_device_attr& attributes) noexcept { return attributes.vendor_id == siw_vendor_id; }

device_list::device_list(std::shared_ptr<const verbs_library> library) : library_(std::move(library)) {
  errno = 0;
  devices_ = library_->get_device_list(&count_);
  if (devices_ == nullptr) {
    // The kernel loads its verbs interface with the first device, so without one it is not there either.
    if (errno == ENOSYS) {
      throw verbs_error("no-device", "ibv_get_device_list", errno,
                        "this machine has no RDMA device (the kernel's verbs interface, ib_uverbs, is not loaded)");
    }
    throw call_failed("ibv_get_device_list", errno != 0 ? errno : EIO);
  }
}

bool device_list::may_name_any(const std::shared_ptr<const verbs_library>& library) {
  try {
    return device_list(library).size() > 0;
  } catch (const verbs_error& error) {
    return error.reason() != "no-device";
  }
}

void device_list::check_files() const {
  for (int i = 0; i < count_; ++i) {
    try {
      return check_device_file(device_file(devices_[i]));
    } catch (const verbs_error&) {
      if (i + 1 == count_) throw;
    }
  }
}

device_list::~device_list() {
  if (devices_ != nullptr) library_->free_device_list(devices_);
}

}  // namespace verbmq
