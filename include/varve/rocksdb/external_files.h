// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// RocksDB's names of tables from outside of a database; see varve/rocksdb.h.

#include <string>

#include "varve/external_files.h"
#include "varve/metadata.h"
#include "varve/rocksdb/names.h"
#include "varve/rocksdb/options.h"
#include "varve/sst_file_reader.h"
#include "varve/sst_file_writer.h"

namespace VARVE_ROCKSDB_NAMESPACE {

using varve::ExportImportFilesMetaData;
using varve::ExternalSstFileInfo;
using varve::ImportColumnFamilyOptions;
using varve::IngestExternalFileArg;
using varve::IngestExternalFileOptions;

// Has no effect.
struct EnvOptions {
  EnvOptions() = default;
  explicit EnvOptions(const DBOptions& /*options*/) {}
};

class SstFileWriter : public varve::SstFileWriter {
 public:
  SstFileWriter(const EnvOptions& /*env_options*/, const Options& options,
                ColumnFamilyHandle* family = nullptr)
      : varve::SstFileWriter(internal::ToVarve(options), family) {}
  // RocksDB's old name of Put.
  Status Add(const Slice& key, const Slice& value) { return Put(key, value); }
};

class SstFileReader : public varve::SstFileReader {
 public:
  explicit SstFileReader(const Options& options)
      : varve::SstFileReader(internal::ToVarve(options)) {}
  // The caller owns the iterator.
  Iterator* NewIterator(const varve::ReadOptions& options) {
    return varve::SstFileReader::NewIterator(options).release();
  }
};

}  // namespace VARVE_ROCKSDB_NAMESPACE
