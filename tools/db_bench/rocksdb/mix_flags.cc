// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "tools/db_bench/rocksdb/mix_flags.h"

#include <gflags/gflags.h>

#include <cstdint>

namespace varve {

namespace {

MixConfig mix_flags;

constexpr struct {
  const char* name;
  double MixConfig::*field;
  const char* help;
} kMixFlags[] = {
    {"mix_get_ratio", &MixConfig::get_ratio, "Of mixgraph, the part of gets"},
    {"mix_put_ratio", &MixConfig::put_ratio, "Of mixgraph, the part of puts"},
    {"mix_seek_ratio", &MixConfig::seek_ratio,
     "Of mixgraph, the part of scans"},
    {"keyrange_dist_a", &MixConfig::range_a,
     "The heat of range x of keyrange_num is a * e^(b x) + c * e^(d x)"},
    {"keyrange_dist_b", &MixConfig::range_b, "b of keyrange_dist_a"},
    {"keyrange_dist_c", &MixConfig::range_c, "c of keyrange_dist_a"},
    {"keyrange_dist_d", &MixConfig::range_d, "d of keyrange_dist_a"},
    {"key_dist_a", &MixConfig::key_a, "The heat of key x is a * x^b"},
    {"key_dist_b", &MixConfig::key_b, "b of key_dist_a"},
    {"value_theta", &MixConfig::value_theta,
     "Theta of the generalized Pareto distribution of the bytes of values"},
    {"value_k", &MixConfig::value_k, "k of value_theta"},
    {"value_sigma", &MixConfig::value_sigma, "Sigma of value_theta"},
    {"iter_theta", &MixConfig::scan_theta,
     "Theta of the same distribution of the entries of scans"},
    {"iter_k", &MixConfig::scan_k, "k of iter_theta"},
    {"iter_sigma", &MixConfig::scan_sigma, "Sigma of iter_theta"},
};
constexpr struct {
  const char* name;
  int64_t MixConfig::*field;
  const char* help;
} kMixNumbers[] = {
    {"keyrange_num", &MixConfig::ranges, "Ranges of keys of mixgraph"},
    {"mix_max_value_size", &MixConfig::max_value_bytes,
     "The most bytes of a value of mixgraph"},
    {"mix_max_scan_len", &MixConfig::max_scan,
     "The most entries of a scan of mixgraph"},
};

}  // namespace

const MixConfig& MixFlags() { return mix_flags; }

void RegisterMixFlags() {
  static MixConfig defaults;
  const auto add = [](const auto& flags) {
    for (const auto& flag : flags) {
      gflags::FlagRegisterer(flag.name, flag.help, "tools/db_bench/db_bench.cc",
                             &(mix_flags.*flag.field), &(defaults.*flag.field));
    }
  };
  add(kMixFlags);
  add(kMixNumbers);
}

}  // namespace varve
