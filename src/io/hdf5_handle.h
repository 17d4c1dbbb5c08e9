// What libhdf5 hands out, closed by itself; and its errors as exceptions. For the isolated child only.
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

namespace headwise::io {

// Silences libhdf5, which prints errors to standard error, and stops it from loading filters from
// wherever the environment points.
void prepare_libhdf5();

// Throws Malformed: "'layers/dense': cannot be read (bad object header version number)". The words in
// brackets are those of libhdf5.
[[noreturn]] void fail_hdf5(const std::string& path, const std::string& problem);

class Hdf5Handle {
 public:
  Hdf5Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&&) = delete;
  ~Hdf5Handle() {
    if (id_ >= 0) (void)close_(id_);
  }

  [[nodiscard]] hid_t get() const noexcept { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// The handle, unless opening it failed.
inline Hdf5Handle opened(hid_t id, herr_t (*close)(hid_t), const std::string& path,
                         const std::string& problem = "cannot be read") {
  if (id < 0) fail_hdf5(path, problem);
  return {id, close};
}

}  // namespace headwise::io
