// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of compression that set more than one field.

#include <rocksdb/c.h>

#include "compat/rocksdb/options/options.h"

extern "C" {

void rocksdb_options_set_compression_per_level(rocksdb_options_t* options,
                                               const int* level_values,
                                               size_t num_levels) {
  if (options == nullptr) return;
  if (level_values == nullptr) num_levels = 0;
  options->compression_per_level.assign(level_values,
                                        level_values + num_levels);
}

void rocksdb_options_set_min_level_to_compress(rocksdb_options_t* options,
                                               int level) {
  if (options == nullptr || level < 0 || options->num_levels < 0) return;
  const auto levels = static_cast<size_t>(options->num_levels);
  options->compression_per_level.assign(levels, options->compression);
  for (size_t i = 0; i < static_cast<size_t>(level) && i < levels; ++i) {
    options->compression_per_level[i] = rocksdb_no_compression;
  }
}

void rocksdb_options_set_max_bytes_for_level_multiplier_additional(
    rocksdb_options_t* options, int* level_values, size_t num_levels) {
  if (options == nullptr) return;
  if (level_values == nullptr) num_levels = 0;
  options->max_bytes_for_level_multiplier_additional.assign(
      level_values, level_values + num_levels);
}

void rocksdb_options_set_compression_options(rocksdb_options_t* options,
                                             int window_bits, int level,
                                             int strategy, int max_dict_bytes) {
  if (options == nullptr) return;
  options->compression_parameters.window_bits = window_bits;
  options->compression_parameters.level = level;
  options->compression_parameters.strategy = strategy;
  options->compression_parameters.max_dict_bytes = max_dict_bytes;
}

void rocksdb_options_set_bottommost_compression_options(
    rocksdb_options_t* options, int window_bits, int level, int strategy,
    int max_dict_bytes, unsigned char enabled) {
  if (options == nullptr) return;
  auto& parameters = options->bottommost_compression_parameters;
  parameters.window_bits = window_bits;
  parameters.level = level;
  parameters.strategy = strategy;
  parameters.max_dict_bytes = max_dict_bytes;
  parameters.enabled = enabled != 0;
}

void rocksdb_options_set_bottommost_compression_options_zstd_max_train_bytes(
    rocksdb_options_t* options, int bytes, unsigned char enabled) {
  if (options == nullptr) return;
  options->bottommost_compression_parameters.zstd_max_train_bytes = bytes;
  options->bottommost_compression_parameters.enabled = enabled != 0;
}

void rocksdb_options_set_bottommost_compression_options_use_zstd_dict_trainer(
    rocksdb_options_t* options, unsigned char use, unsigned char enabled) {
  if (options == nullptr) return;
  auto& parameters = options->bottommost_compression_parameters;
  parameters.use_zstd_dict_trainer = use != 0;
  parameters.enabled = enabled != 0;
}

unsigned char
rocksdb_options_get_bottommost_compression_options_use_zstd_dict_trainer(
    rocksdb_options_t* options) {
  return options != nullptr &&
         options->bottommost_compression_parameters.use_zstd_dict_trainer;
}

void rocksdb_options_set_bottommost_compression_options_max_dict_buffer_bytes(
    rocksdb_options_t* options, uint64_t bytes, unsigned char enabled) {
  if (options == nullptr) return;
  options->bottommost_compression_parameters.max_dict_buffer_bytes = bytes;
  options->bottommost_compression_parameters.enabled = enabled != 0;
}

}  // extern "C"
