// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of prefixes of keys.
#include "varve/c_prefixes.h"

#include <memory>
#include <string>
#include <utility>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "varve/slice_transform.h"

using varve::Options;
using varve::ReadOptions;
using varve::Slice;
using varve::SliceTransform;
using varve::capi::Set;

struct varve_slicetransform_t {
  std::shared_ptr<const SliceTransform> rep;
};

namespace {

// A C program's transform.
class CallbackTransform final : public SliceTransform {
 public:
  struct Callbacks {
    void* state;
    void (*destructor)(void*);
    char* (*transform)(void*, const char* key, size_t length,
                       size_t* prefix_length);
    uint8_t (*in_domain)(void*, const char* key, size_t length);
  };

  CallbackTransform(const Callbacks& callbacks, std::string name)
      : callbacks_(callbacks), name_(std::move(name)) {}
  CallbackTransform(const CallbackTransform&) = delete;
  CallbackTransform& operator=(const CallbackTransform&) = delete;
  ~CallbackTransform() override {
    if (callbacks_.destructor != nullptr) {
      callbacks_.destructor(callbacks_.state);
    }
  }

  const char* Name() const override { return name_.c_str(); }
  Slice Transform(const Slice& key) const override {
    size_t size = 0;
    const char* const prefix =
        callbacks_.transform(callbacks_.state, DataOf(key), key.size(), &size);
    return prefix == nullptr ? Slice() : Slice(prefix, size);
  }
  bool InDomain(const Slice& key) const override {
    return callbacks_.in_domain(callbacks_.state, DataOf(key), key.size()) != 0;
  }

 private:
  static const char* DataOf(const Slice& key) {
    return key.data() != nullptr ? key.data() : "";
  }

  const Callbacks callbacks_;
  const std::string name_;
};

varve_slicetransform_t* NewHandle(std::shared_ptr<const SliceTransform> rep) {
  return new varve_slicetransform_t{std::move(rep)};
}

}  // namespace

extern "C" {

varve_slicetransform_t* varve_slicetransform_create(
    void* state, void (*destructor)(void*),
    char* (*transform)(void*, const char* key, size_t length,
                       size_t* prefix_length),
    uint8_t (*in_domain)(void*, const char* key, size_t length),
    const char* (*name)(void*)) {
  if (transform == nullptr || in_domain == nullptr || name == nullptr) {
    return nullptr;
  }
  const char* const text = name(state);
  if (text == nullptr) return nullptr;
  return NewHandle(std::make_shared<CallbackTransform>(
      CallbackTransform::Callbacks{state, destructor, transform, in_domain},
      text));
}

varve_slicetransform_t* varve_slicetransform_create_fixed_prefix(
    size_t length) {
  return NewHandle(varve::NewFixedPrefixTransform(length));
}

varve_slicetransform_t* varve_slicetransform_create_capped_prefix(
    size_t length) {
  return NewHandle(varve::NewCappedPrefixTransform(length));
}

varve_slicetransform_t* varve_slicetransform_create_noop(void) {
  return NewHandle(varve::NewNoopTransform());
}

void varve_slicetransform_destroy(varve_slicetransform_t* transform) {
  delete transform;
}

void varve_options_set_prefix_extractor(varve_options_t* options,
                                        varve_slicetransform_t* transform) {
  Set(options, &Options::prefix_extractor,
      transform != nullptr ? transform->rep : nullptr);
}

void varve_readoptions_set_total_order_seek(varve_readoptions_t* options,
                                            uint8_t value) {
  Set(options, &ReadOptions::total_order_seek, value != 0);
}

void varve_readoptions_set_prefix_same_as_start(varve_readoptions_t* options,
                                                uint8_t value) {
  Set(options, &ReadOptions::prefix_same_as_start, value != 0);
}

void varve_readoptions_set_auto_prefix_mode(varve_readoptions_t* options,
                                            uint8_t value) {
  Set(options, &ReadOptions::auto_prefix_mode, value != 0);
}

}  // extern "C"
