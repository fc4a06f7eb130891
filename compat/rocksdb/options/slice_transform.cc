// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "compat/rocksdb/options/slice_transform.h"

#include <rocksdb/c.h>

#include <memory>
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

  const char* Name() const override { return state.Name(); }
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

struct EngineTransform final : rocksdb_slicetransform_t {
  explicit EngineTransform(
      std::shared_ptr<const varve::SliceTransform> engine_transform)
      : rep(std::move(engine_transform)) {}

  const char* Name() const override { return rep->Name(); }
  Slice Transform(const Slice& key) const override {
    return rep->Transform(key);
  }
  bool InDomain(const Slice& key) const override { return rep->InDomain(key); }
  bool FullLengthEnabled(size_t* length) const override {
    return rep->FullLengthEnabled(length);
  }
  bool SameResultWhenAppended(const Slice& prefix) const override {
    return rep->SameResultWhenAppended(prefix);
  }

  const std::shared_ptr<const varve::SliceTransform> rep;
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
  return new EngineTransform(varve::NewFixedPrefixTransform(length));
}

rocksdb_slicetransform_t* rocksdb_slicetransform_create_noop(void) {
  return new EngineTransform(varve::NewNoopTransform());
}

}  // extern "C"
