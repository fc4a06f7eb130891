// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of merges, except for batches, and of compaction filters.

#include <climits>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"

using varve::CompactionFilter;
using varve::Options;
using varve::Slice;
using varve::capi::Bytes;
using varve::capi::Given;
using varve::capi::OwnFamily;
using varve::capi::SaveError;
using varve::capi::Set;
using varve::capi::ToSlice;
using varve::capi::Usable;

namespace {

// Never null, so that a callback can tell no bytes from no value.
const char* DataOf(const Slice& bytes) {
  return bytes.data() != nullptr ? bytes.data() : "";
}

// A C program's operator.
class CallbackMergeOperator final : public varve::MergeOperator {
 public:
  using FullMergeFunction = char* (*)(void*, const char* key, size_t key_length,
                                      const char* existing_value,
                                      size_t existing_value_length,
                                      const char* const* operands_list,
                                      const size_t* operands_list_length,
                                      int num_operands, uint8_t* success,
                                      size_t* new_value_length);
  using PartialMergeFunction = char* (*)(void*, const char* key,
                                         size_t key_length,
                                         const char* const* operands_list,
                                         const size_t* operands_list_length,
                                         int num_operands, uint8_t* success,
                                         size_t* new_value_length);
  struct Callbacks {
    void* state;
    void (*destructor)(void*);
    FullMergeFunction full_merge;
    PartialMergeFunction partial_merge;  // May be null.
    void (*delete_value)(void*, const char* value, size_t value_length);
  };

  CallbackMergeOperator(const Callbacks& callbacks, const char* name)
      : callbacks_(callbacks), name_(name) {}
  CallbackMergeOperator(const CallbackMergeOperator&) = delete;
  CallbackMergeOperator& operator=(const CallbackMergeOperator&) = delete;
  ~CallbackMergeOperator() override {
    if (callbacks_.destructor != nullptr) {
      callbacks_.destructor(callbacks_.state);
    }
  }

  bool FullMerge(const FullMergeInput& input,
                 std::string* new_value) const override {
    const Operands operands(input.operands.data(), input.operands.size());
    if (!operands.usable()) return false;
    const Slice* const existing = input.existing_value;
    uint8_t success = 1;
    size_t size = 0;
    char* const bytes = callbacks_.full_merge(
        callbacks_.state, DataOf(input.key), input.key.size(),
        existing != nullptr ? DataOf(*existing) : nullptr,
        existing != nullptr ? existing->size() : 0, operands.data.data(),
        operands.sizes.data(), operands.count(), &success, &size);
    return Take(bytes, size, success, new_value);
  }

  bool PartialMerge(const Slice& key, const Slice& left, const Slice& right,
                    std::string* new_value) const override {
    const Slice pair[] = {left, right};
    return Combine(key, Operands(pair, 2), new_value);
  }

  bool PartialMergeMulti(const Slice& key, const std::vector<Slice>& operands,
                         std::string* new_value) const override {
    return Combine(key, Operands(operands.data(), operands.size()), new_value);
  }

  const char* Name() const override { return name_.c_str(); }

 private:
  struct Operands {
    Operands(const Slice* operands, size_t number) {
      data.reserve(number);
      sizes.reserve(number);
      for (size_t i = 0; i < number; ++i) {
        data.push_back(DataOf(operands[i]));
        sizes.push_back(operands[i].size());
      }
    }
    bool usable() const { return data.size() <= INT_MAX; }
    int count() const { return static_cast<int>(data.size()); }

    std::vector<const char*> data;
    std::vector<size_t> sizes;
  };

  bool Combine(const Slice& key, const Operands& operands,
               std::string* new_value) const {
    if (callbacks_.partial_merge == nullptr || !operands.usable()) return false;
    uint8_t success = 1;
    size_t size = 0;
    char* const bytes = callbacks_.partial_merge(
        callbacks_.state, DataOf(key), key.size(), operands.data.data(),
        operands.sizes.data(), operands.count(), &success, &size);
    return Take(bytes, size, success, new_value);
  }

  // Copies a callback's result, and frees it.
  bool Take(char* bytes, size_t size, uint8_t success,
            std::string* new_value) const {
    const bool usable = success != 0 && Bytes{bytes, size, "value"}.ok();
    if (usable) new_value->assign(bytes != nullptr ? bytes : "", size);
    if (bytes == nullptr) return usable;
    if (callbacks_.delete_value != nullptr) {
      callbacks_.delete_value(callbacks_.state, bytes, size);
    } else {
      free(bytes);
    }
    return usable;
  }

  const Callbacks callbacks_;
  const std::string name_;
};

// A C program's factory.
class CallbackFilterFactory final : public varve::CompactionFilterFactory {
 public:
  using Create =
      varve_compactionfilter_t* (*)(void*,
                                    varve_compactionfiltercontext_t* context);

  CallbackFilterFactory(void* state, void (*destructor)(void*), Create create,
                        const char* name)
      : state_(state), destructor_(destructor), create_(create), name_(name) {}
  CallbackFilterFactory(const CallbackFilterFactory&) = delete;
  CallbackFilterFactory& operator=(const CallbackFilterFactory&) = delete;
  ~CallbackFilterFactory() override {
    if (destructor_ != nullptr) destructor_(state_);
  }

  std::unique_ptr<CompactionFilter> CreateCompactionFilter(
      const CompactionFilter::Context& context) override {
    varve_compactionfiltercontext_t handle = {&context};
    return std::unique_ptr<CompactionFilter>(create_(state_, &handle));
  }

  const char* Name() const override { return name_.c_str(); }

 private:
  void* const state_;
  void (*const destructor_)(void*);
  const Create create_;
  const std::string name_;
};

// Returns a callback's name, which is null if the callback is.
const char* NameOf(void* state, const char* (*name)(void*)) {
  return name != nullptr ? name(state) : nullptr;
}

varve_mergeoperator_t* NewHandle(std::shared_ptr<varve::MergeOperator> rep) {
  return rep != nullptr ? new varve_mergeoperator_t{std::move(rep)} : nullptr;
}

}  // namespace

bool varve_compactionfilter_t::Filter(int level, const Slice& key,
                                      const Slice& value,
                                      std::string* new_value,
                                      bool* value_changed) const {
  char* bytes = nullptr;
  size_t size = 0;
  uint8_t changed = 0;
  const uint8_t removed =
      filter(state, level, DataOf(key), key.size(), DataOf(value), value.size(),
             &bytes, &size, &changed);
  if (removed != 0) return true;
  // A new value without memory is a mistake, which changes nothing.
  if (changed != 0 && Bytes{bytes, size, "value"}.ok()) {
    new_value->assign(bytes != nullptr ? bytes : "", size);
    *value_changed = true;
  }
  return false;
}

extern "C" {

// ---- Merge operators --------------------------------------------------------

varve_mergeoperator_t* varve_mergeoperator_create(
    void* state, void (*destructor)(void*),
    char* (*full_merge)(void*, const char* key, size_t key_length,
                        const char* existing_value,
                        size_t existing_value_length,
                        const char* const* operands_list,
                        const size_t* operands_list_length, int num_operands,
                        uint8_t* success, size_t* new_value_length),
    char* (*partial_merge)(void*, const char* key, size_t key_length,
                           const char* const* operands_list,
                           const size_t* operands_list_length, int num_operands,
                           uint8_t* success, size_t* new_value_length),
    void (*delete_value)(void*, const char* value, size_t value_length),
    const char* (*name)(void*)) {
  const char* const named = NameOf(state, name);
  if (full_merge == nullptr || named == nullptr) return nullptr;
  const CallbackMergeOperator::Callbacks callbacks = {
      state, destructor, full_merge, partial_merge, delete_value};
  return NewHandle(std::make_shared<CallbackMergeOperator>(callbacks, named));
}

varve_mergeoperator_t* varve_mergeoperator_create_builtin(const char* name) {
  return name != nullptr ? NewHandle(varve::FindMergeOperator(name)) : nullptr;
}

varve_mergeoperator_t* varve_mergeoperator_create_uint64add(void) {
  return NewHandle(varve::NewUInt64AddOperator());
}

varve_mergeoperator_t* varve_mergeoperator_create_stringappend(
    const char* delimiter, size_t length) {
  if (!Bytes{delimiter, length, "delimiter"}.ok()) return nullptr;
  return NewHandle(
      varve::NewStringAppendOperator(ToSlice(delimiter, length).ToString()));
}

void varve_mergeoperator_destroy(varve_mergeoperator_t* merge_operator) {
  delete merge_operator;
}

void varve_options_set_merge_operator(varve_options_t* options,
                                      varve_mergeoperator_t* merge_operator) {
  Set(options, &Options::merge_operator,
      merge_operator != nullptr ? merge_operator->rep : nullptr);
}

void varve_options_set_uint64add_merge_operator(varve_options_t* options) {
  Set(options, &Options::merge_operator, varve::NewUInt64AddOperator());
}

void varve_options_set_max_successive_merges(varve_options_t* options,
                                             size_t count) {
  Set(options, &Options::max_successive_merges, count);
}

size_t varve_options_get_max_successive_merges(const varve_options_t* options) {
  return options != nullptr ? options->rep.max_successive_merges : 0;
}

// ---- Merges -----------------------------------------------------------------

void varve_merge(varve_t* db, const varve_writeoptions_t* options,
                 const char* key, size_t keylen, const char* val, size_t vallen,
                 char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              Bytes{key, keylen, "key"}, Bytes{val, vallen, "val"})) {
    return;
  }
  SaveError(errptr, db->db->Merge(options->rep, ToSlice(key, keylen),
                                  ToSlice(val, vallen)));
}

void varve_merge_cf(varve_t* db, const varve_writeoptions_t* options,
                    varve_column_family_handle_t* column_family,
                    const char* key, size_t keylen, const char* val,
                    size_t vallen, char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{options, "options"},
              OwnFamily{column_family, db}, Bytes{key, keylen, "key"},
              Bytes{val, vallen, "val"})) {
    return;
  }
  SaveError(errptr, db->db->Merge(options->rep, column_family->rep.get(),
                                  ToSlice(key, keylen), ToSlice(val, vallen)));
}

// ---- Compaction filters -----------------------------------------------------

varve_compactionfilter_t* varve_compactionfilter_create(
    void* state, void (*destructor)(void*),
    uint8_t (*filter)(void*, int level, const char* key, size_t key_length,
                      const char* existing_value, size_t value_length,
                      char** new_value, size_t* new_value_length,
                      uint8_t* value_changed),
    const char* (*name)(void*)) {
  const char* const named = NameOf(state, name);
  if (filter == nullptr || named == nullptr) return nullptr;
  return new varve_compactionfilter_t(state, destructor, filter, named);
}

void varve_compactionfilter_destroy(varve_compactionfilter_t* filter) {
  delete filter;
}

void varve_options_set_compaction_filter(varve_options_t* options,
                                         varve_compactionfilter_t* filter) {
  Set(options, &Options::compaction_filter, filter);
}

varve_compactionfilterfactory_t* varve_compactionfilterfactory_create(
    void* state, void (*destructor)(void*),
    varve_compactionfilter_t* (*create_compaction_filter)(
        void*, varve_compactionfiltercontext_t* context),
    const char* (*name)(void*)) {
  const char* const named = NameOf(state, name);
  if (create_compaction_filter == nullptr || named == nullptr) return nullptr;
  return new varve_compactionfilterfactory_t{
      std::make_shared<CallbackFilterFactory>(state, destructor,
                                              create_compaction_filter, named)};
}

void varve_compactionfilterfactory_destroy(
    varve_compactionfilterfactory_t* factory) {
  delete factory;
}

void varve_options_set_compaction_filter_factory(
    varve_options_t* options, varve_compactionfilterfactory_t* factory) {
  Set(options, &Options::compaction_filter_factory,
      factory != nullptr ? factory->rep : nullptr);
}

uint8_t varve_compactionfiltercontext_is_full_compaction(
    varve_compactionfiltercontext_t* context) {
  return context != nullptr && context->rep->is_full_compaction ? 1 : 0;
}

uint8_t varve_compactionfiltercontext_is_manual_compaction(
    varve_compactionfiltercontext_t* context) {
  return context != nullptr && context->rep->is_manual_compaction ? 1 : 0;
}

// ---- Compactions by age -----------------------------------------------------

void varve_options_set_ttl(varve_options_t* options, uint64_t seconds) {
  Set(options, &Options::ttl, seconds);
}

uint64_t varve_options_get_ttl(const varve_options_t* options) {
  return options != nullptr ? options->rep.ttl : 0;
}

void varve_options_set_periodic_compaction_seconds(varve_options_t* options,
                                                   uint64_t seconds) {
  Set(options, &Options::periodic_compaction_seconds, seconds);
}

uint64_t varve_options_get_periodic_compaction_seconds(
    const varve_options_t* options) {
  return options != nullptr ? options->rep.periodic_compaction_seconds : 0;
}

}  // extern "C"
