// Devices of this machine, and one of them opened.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "verbs/verbs_library.h"

namespace verbmq {

/// An open device. Either opened here (and closed here), or borrowed from a cm id, whose library keeps it open.
class device_context {
 public:
  /// Opens `device`; throws verbs_error (EACCES names the device file).
  device_context(std::shared_ptr<const verbs_library> library, ibv_device* device);
  /// Uses the context that librdmacm opened for its ids and never closes.
  device_context(std::shared_ptr<const verbs_library> library, ibv_context* borrowed);
  ~device_context();
  device_context(const device_context&) = delete;
  device_context& operator=(const device_context&) = delete;

  ibv_context* get() const noexcept { return context_; }
  const verbs_library& library() const noexcept { return *library_; }
  std::string name() const;
  bool is_iwarp() const noexcept;
  ibv_device_attr attributes() const;
  ibv_port_attr port(uint8_t number) const;

 private:
  std::shared_ptr<const verbs_library> library_;
  ibv_context* context_;
  bool owned_;
};

/// Whether these are of siw, some of whose ways are no other iWARP device's.
bool is_soft_iwarp(const ibv_device_attr& attributes) noexcept;

/// The machine's devices at one moment. The list must outlive the opening of its devices, not the devices opened.
class device_list {
 public:
  /// Throws verbs_error when the library cannot enumerate; an empty list is no error.
  explicit device_list(std::shared_ptr<const verbs_library> library);
  /// Whether there is a device; also when that cannot be told.
  static bool may_name_any(const std::shared_ptr<const verbs_library>& library);
  ~device_list();
  device_list(const device_list&) = delete;
  device_list& operator=(const device_list&) = delete;

  int size() const noexcept { return count_; }
  /// Throws "no-permission" when the files of all devices are closed to this user.
  void check_files() const;
  ibv_device* at(int index) const noexcept { return devices_[index]; }

 private:
  std::shared_ptr<const verbs_library> library_;
  ibv_device** devices_ = nullptr;
  int count_ = 0;
};

}  // namespace verbmq
