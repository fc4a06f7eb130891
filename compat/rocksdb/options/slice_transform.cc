// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/options/slice_transform.h"

#include <rocksdb/c.h>

#include <utility>

#include "compat/rocksdb/callbacks/callback_state.h"

using varve::Slice;

namespace {

struct CallbackTransform final : rocksdb_slicetransform_t {
  using TransformFunction = char* (*)(void*, const char*, size_t, size_t*);
  using InDomainFunction = unsigned char (*)(void*, const char*, size_t);

  CallbackTransform(varve::rocksdb_c::CallbackState callback_state,
                    TransformFunction transform_function,
                    InDomainFunction in_domain_function)
      : state(std::move(callback_state)),
        transform(transform_function),
        in_domain(in_domain_function) {}

  std::string Name() const override { return state.Name(); }
  Slice Transform(const Slice& key) const override {
    size_t size = 0;
    const char* const prefix =
        transform(state.get(), key.data(), key.size(), &size);
    return prefix == nullptr ? Slice() : Slice(prefix, size);
  }
  bool InDomain(const Slice& key) const override {
    return in_domain(state.get(), key.data(), key.size()) != 0;
  }

  const varve::rocksdb_c::CallbackState state;
  const TransformFunction transform;
  const InDomainFunction in_domain;
};

struct FixedPrefixTransform final : rocksdb_slicetransform_t {
  explicit FixedPrefixTransform(size_t prefix_length) : length(prefix_length) {}

  std::string Name() const override {
    return "rocksdb.FixedPrefix." + std::to_string(length);
  }
  Slice Transform(const Slice& key) const override {
    return Slice(key.data(), length);
  }
  bool InDomain(const Slice& key) const override {
    return key.size() >= length;
  }

  const size_t length;
};

struct NoopTransform final : rocksdb_slicetransform_t {
  std::string Name() const override { return "rocksdb.Noop"; }
  Slice Transform(const Slice& key) const override { return key; }
  bool InDomain(const Slice& /*key*/) const override { return true; }
};

}  // namespace

extern "C" {

rocksdb_slicetransform_t* rocksdb_slicetransform_create(
    void* state, void (*destructor)(void*),
    char* (*transform)(void*, const char* key, size_t length,
                       size_t* dst_length),
    unsigned char (*in_domain)(void*, const char* key, size_t length),
#if VARVE_ROCKSDB_C_VERSION < 1100
    unsigned char (*)(void*, const char* key, size_t length),
#endif
    const char* (*name)(void*)) {
  if (transform == nullptr || in_domain == nullptr) return nullptr;
  return new CallbackTransform(
      varve::rocksdb_c::CallbackState(state, destructor, name), transform,
      in_domain);
}

rocksdb_slicetransform_t* rocksdb_slicetransform_create_fixed_prefix(
    size_t length) {
  return new FixedPrefixTransform(length);
}

rocksdb_slicetransform_t* rocksdb_slicetransform_create_noop(void) {
  return new NoopTransform;
}

}  // extern "C"
