// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Tables that programs write, and add to databases.

#include <memory>
#include <string>
#include <vector>

#include "compat/rocksdb/db/arguments.h"
#include "compat/rocksdb/db/families.h"
#include "compat/rocksdb/db/handles.h"
#include "compat/rocksdb/options/translate.h"
#include "varve/external_files.h"
#include "varve/sst_file_writer.h"

struct rocksdb_sstfilewriter_t {
  varve::Status status;  // An error of the options; then there is no writer.
  std::shared_ptr<varve::Env> env;  // Null: the operating system's.
  std::unique_ptr<varve::SstFileWriter> rep;
};

namespace varve::rocksdb_c {
namespace {

// A writer with usable options.
struct UsableWriter {
  const rocksdb_sstfilewriter_t* writer;
  static constexpr const char* name = "writer";

  bool ok() const { return writer != nullptr && writer->rep != nullptr; }
  const char* Problem() const {
    return writer == nullptr ? "is NULL" : "has options that Varve lacks";
  }
};

Status Ingest(DB* db, ColumnFamilyHandle* family, const char* const* names,
              size_t count,
              const rocksdb_ingestexternalfileoptions_t& options) {
  if (options.allow_db_generated_files != 0) {
    return Missing("ingestion of tables of databases");
  }
  IngestExternalFileOptions result;
  result.move_files = options.move_files != 0;
  result.link_files = options.link_files != 0;
  result.failed_move_fall_back_to_copy =
      options.failed_move_fall_back_to_copy != 0;
  result.snapshot_consistency = options.snapshot_consistency != 0;
  result.allow_global_seqno = options.allow_global_seqno != 0;
  result.allow_blocking_flush = options.allow_blocking_flush != 0;
  result.ingest_behind = options.ingest_behind != 0;
  result.fail_if_not_bottommost_level =
      options.fail_if_not_bottommost_level != 0;
  result.verify_checksums_before_ingest =
      options.verify_checksums_before_ingest != 0;
  return db->IngestExternalFile(
      family, std::vector<std::string>(names, names + count), result);
}

}  // namespace
}  // namespace varve::rocksdb_c

using varve::rocksdb_c::ArrayOf;
using varve::rocksdb_c::Bytes;
using varve::rocksdb_c::Failed;
using varve::rocksdb_c::FamilyOf;
using varve::rocksdb_c::Given;
using varve::rocksdb_c::Ingest;
using varve::rocksdb_c::Open;
using varve::rocksdb_c::ToVarve;
using varve::rocksdb_c::Usable;
using varve::rocksdb_c::UsableWriter;

extern "C" {

rocksdb_sstfilewriter_t* rocksdb_sstfilewriter_create(
    const rocksdb_envoptions_t* /*env*/, const rocksdb_options_t* io_options) {
  auto* const writer = new rocksdb_sstfilewriter_t;
  if (io_options == nullptr) {
    writer->status = varve::Status::InvalidArgument("io_options is NULL");
    return writer;
  }
  varve::Options options;
  writer->status = ToVarve(*io_options, &options);
  writer->env = io_options->env;
  if (writer->status.ok()) {
    writer->rep = std::make_unique<varve::SstFileWriter>(options);
  }
  return writer;
}

// As in RocksDB, the options have the comparator.
rocksdb_sstfilewriter_t* rocksdb_sstfilewriter_create_with_comparator(
    const rocksdb_envoptions_t* env, const rocksdb_options_t* io_options,
    const rocksdb_comparator_t* /*comparator*/) {
  return rocksdb_sstfilewriter_create(env, io_options);
}

void rocksdb_sstfilewriter_open(rocksdb_sstfilewriter_t* writer,
                                const char* name, char** errptr) {
  if (!Usable(errptr, Given{writer, "writer"}, Given{name, "name"})) return;
  Failed(errptr,
         writer->status.ok() ? writer->rep->Open(name) : writer->status);
}

void rocksdb_sstfilewriter_add(rocksdb_sstfilewriter_t* writer, const char* key,
                               size_t keylen, const char* val, size_t vallen,
                               char** errptr) {
  rocksdb_sstfilewriter_put(writer, key, keylen, val, vallen, errptr);
}

void rocksdb_sstfilewriter_put(rocksdb_sstfilewriter_t* writer, const char* key,
                               size_t keylen, const char* val, size_t vallen,
                               char** errptr) {
  const Bytes key_bytes{key, keylen, "key"};
  const Bytes value{val, vallen, "val"};
  if (!Usable(errptr, UsableWriter{writer}, key_bytes, value)) return;
  Failed(errptr, writer->rep->Put(key_bytes.slice(), value.slice()));
}

void rocksdb_sstfilewriter_merge(rocksdb_sstfilewriter_t* writer,
                                 const char* key, size_t keylen,
                                 const char* val, size_t vallen,
                                 char** errptr) {
  const Bytes key_bytes{key, keylen, "key"};
  const Bytes value{val, vallen, "val"};
  if (!Usable(errptr, UsableWriter{writer}, key_bytes, value)) return;
  Failed(errptr, writer->rep->Merge(key_bytes.slice(), value.slice()));
}

void rocksdb_sstfilewriter_delete(rocksdb_sstfilewriter_t* writer,
                                  const char* key, size_t keylen,
                                  char** errptr) {
  const Bytes key_bytes{key, keylen, "key"};
  if (!Usable(errptr, UsableWriter{writer}, key_bytes)) return;
  Failed(errptr, writer->rep->Delete(key_bytes.slice()));
}

void rocksdb_sstfilewriter_delete_range(rocksdb_sstfilewriter_t* writer,
                                        const char* begin_key,
                                        size_t begin_keylen,
                                        const char* end_key, size_t end_keylen,
                                        char** errptr) {
  const Bytes begin{begin_key, begin_keylen, "begin_key"};
  const Bytes end{end_key, end_keylen, "end_key"};
  if (!Usable(errptr, UsableWriter{writer}, begin, end)) return;
  Failed(errptr, writer->rep->DeleteRange(begin.slice(), end.slice()));
}

void rocksdb_sstfilewriter_finish(rocksdb_sstfilewriter_t* writer,
                                  char** errptr) {
  if (!Usable(errptr, UsableWriter{writer})) return;
  Failed(errptr, writer->rep->Finish());
}

void rocksdb_sstfilewriter_file_size(rocksdb_sstfilewriter_t* writer,
                                     uint64_t* file_size) {
  if (file_size == nullptr) return;
  *file_size = UsableWriter{writer}.ok() ? writer->rep->FileSize() : 0;
}

void rocksdb_sstfilewriter_destroy(rocksdb_sstfilewriter_t* writer) {
  delete writer;
}

void rocksdb_ingest_external_file(
    rocksdb_t* db, const char* const* file_list, const size_t list_len,
    const rocksdb_ingestexternalfileoptions_t* opt, char** errptr) {
  if (!Usable(errptr, Open{db}, Given{opt, "opt"},
              ArrayOf<const char*>{file_list, static_cast<ptrdiff_t>(list_len),
                                   "file_list"})) {
    return;
  }
  Failed(errptr, Ingest(db->db, nullptr, file_list, list_len, *opt));
}

void rocksdb_ingest_external_file_cf(
    rocksdb_t* db, rocksdb_column_family_handle_t* handle,
    const char* const* file_list, const size_t list_len,
    const rocksdb_ingestexternalfileoptions_t* opt, char** errptr) {
  if (!Usable(errptr, Open{db}, FamilyOf{handle, db}, Given{opt, "opt"},
              ArrayOf<const char*>{file_list, static_cast<ptrdiff_t>(list_len),
                                   "file_list"})) {
    return;
  }
  Failed(errptr, Ingest(db->db, handle->rep.get(), file_list, list_len, *opt));
}

}  // extern "C"
