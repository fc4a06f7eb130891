// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Approximate sizes of key ranges.

#include <fields.h>
#include <algorithm>
#include <vector>

#include "compat/rocksdb/db/families.h"
#include "compat/rocksdb/db/handles.h"

namespace varve::rocksdb_c {
namespace {

// The ranges of one call as the program gives them.
struct ProgramRanges {
  int count;
  const char* const* starts;
  const size_t* start_sizes;
  const char* const* limits;
  const size_t* limit_sizes;
  static constexpr const char* name = "the ranges";

  bool ok() const {
    if (count <= 0) return count == 0;
    if (starts == nullptr || start_sizes == nullptr || limits == nullptr ||
        limit_sizes == nullptr) {
      return false;
    }
    for (int i = 0; i < count; ++i) {
      if (!Start(i).ok() || !Limit(i).ok()) return false;
    }
    return true;
  }
  const char* Problem() const {
    return count < 0 ? "have a negative number" : "contain a NULL";
  }
  Bytes Start(int i) const { return {starts[i], start_sizes[i], name}; }
  Bytes Limit(int i) const { return {limits[i], limit_sizes[i], name}; }
};

// The parts of a database whose bytes count.
struct Included {
  bool memtables = false;
  bool files = true;
};

Status CheckIncluded(Included included) {
  if (included.memtables) return Missing("sizes of key ranges in memtables");
  if (included.files) return Status::OK();
  return Status::InvalidArgument("Invalid options");
}

// `family` is null for the default one.
void GetSizes(rocksdb_t* db, ColumnFamilyHandle* family,
              const ProgramRanges& program, Included included, uint64_t* sizes,
              char** errptr) {
  if (sizes != nullptr && program.count > 0) {
    std::fill_n(sizes, program.count, 0);
  }
  if (!Usable(errptr, Open{db}, program, Given{sizes, "sizes"}) ||
      Failed(errptr, CheckIncluded(included))) {
    return;
  }
  std::vector<Range> ranges;
  for (int i = 0; i < program.count; ++i) {
    ranges.push_back({program.Start(i).slice(), program.Limit(i).slice()});
  }
  Failed(errptr, db->db->GetApproximateSizes(family, ranges.data(),
                                             ranges.size(), sizes));
}

void GetFamilySizes(rocksdb_t* db, const rocksdb_column_family_handle_t* family,
                    const ProgramRanges& program, Included included,
                    uint64_t* sizes, char** errptr) {
  if (!Usable(errptr, Open{db}, FamilyOf{family, db})) return;
  GetSizes(db, family->rep.get(), program, included, sizes, errptr);
}

// Null options have the defaults.
Included IncludedBy(const rocksdb_size_approximation_options_t* options) {
  if (options == nullptr) return {};
  return {.memtables = options->include_memtables != 0,
          .files = options->include_files != 0};
}

}  // namespace
}  // namespace varve::rocksdb_c

extern "C" {

void rocksdb_approximate_sizes(rocksdb_t* db, int num_ranges,
                               const char* const* range_start_key,
                               const size_t* range_start_key_len,
                               const char* const* range_limit_key,
                               const size_t* range_limit_key_len,
                               uint64_t* sizes, char** errptr) {
  varve::rocksdb_c::GetSizes(db, nullptr,
                             {num_ranges, range_start_key, range_start_key_len,
                              range_limit_key, range_limit_key_len},
                             {}, sizes, errptr);
}

void rocksdb_approximate_sizes_cf(
    rocksdb_t* db, rocksdb_column_family_handle_t* column_family,
    int num_ranges, const char* const* range_start_key,
    const size_t* range_start_key_len, const char* const* range_limit_key,
    const size_t* range_limit_key_len, uint64_t* sizes, char** errptr) {
  varve::rocksdb_c::GetFamilySizes(
      db, column_family,
      {num_ranges, range_start_key, range_start_key_len, range_limit_key,
       range_limit_key_len},
      {}, sizes, errptr);
}

void rocksdb_approximate_sizes_cf_with_flags(
    rocksdb_t* db, rocksdb_column_family_handle_t* column_family,
    int num_ranges, const char* const* range_start_key,
    const size_t* range_start_key_len, const char* const* range_limit_key,
    const size_t* range_limit_key_len, uint8_t include_flags, uint64_t* sizes,
    char** errptr) {
  const int flags = include_flags;
  varve::rocksdb_c::GetFamilySizes(
      db, column_family,
      {num_ranges, range_start_key, range_start_key_len, range_limit_key,
       range_limit_key_len},
      {.memtables =
           (flags & rocksdb_size_approximation_flags_include_memtable) != 0,
       .files = (flags & rocksdb_size_approximation_flags_include_files) != 0},
      sizes, errptr);
}

void rocksdb_approximate_sizes_with_options(
    rocksdb_t* db, const rocksdb_size_approximation_options_t* options,
    int num_ranges, const char* const* range_start_key,
    const size_t* range_start_key_len, const char* const* range_limit_key,
    const size_t* range_limit_key_len, uint64_t* sizes, char** errptr) {
  varve::rocksdb_c::GetSizes(db, nullptr,
                             {num_ranges, range_start_key, range_start_key_len,
                              range_limit_key, range_limit_key_len},
                             varve::rocksdb_c::IncludedBy(options), sizes,
                             errptr);
}

void rocksdb_approximate_sizes_cf_with_options(
    rocksdb_t* db, rocksdb_column_family_handle_t* column_family,
    const rocksdb_size_approximation_options_t* options, int num_ranges,
    const char* const* range_start_key, const size_t* range_start_key_len,
    const char* const* range_limit_key, const size_t* range_limit_key_len,
    uint64_t* sizes, char** errptr) {
  varve::rocksdb_c::GetFamilySizes(
      db, column_family,
      {num_ranges, range_start_key, range_start_key_len, range_limit_key,
       range_limit_key_len},
      varve::rocksdb_c::IncludedBy(options), sizes, errptr);
}

}  // extern "C"
