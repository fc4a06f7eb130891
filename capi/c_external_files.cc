// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of tables from outside of a database.
#include "varve/c_external_files.h"

#include <string>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "varve/external_files.h"
#include "varve/sst_file_writer.h"

using varve::capi::Bytes;
using varve::capi::Given;
using varve::capi::kMaxEntries;
using varve::capi::OwnFamily;
using varve::capi::SaveError;
using varve::capi::ToSlice;
using varve::capi::Usable;

struct varve_sstfilewriter_t {
  varve::SstFileWriter rep;
};

extern "C" {

varve_sstfilewriter_t* varve_sstfilewriter_create(
    const varve_options_t* options) {
  if (options == nullptr) return nullptr;
  return new varve_sstfilewriter_t{varve::SstFileWriter(options->ForUse())};
}

void varve_sstfilewriter_open(varve_sstfilewriter_t* writer, const char* name,
                              char** errptr) {
  if (!Usable(errptr, Given{writer, "writer"}, Given{name, "name"})) return;
  SaveError(errptr, writer->rep.Open(name));
}

void varve_sstfilewriter_put(varve_sstfilewriter_t* writer, const char* key,
                             size_t keylen, const char* val, size_t vallen,
                             char** errptr) {
  if (!Usable(errptr, Given{writer, "writer"}, Bytes{key, keylen, "key"},
              Bytes{val, vallen, "val"})) {
    return;
  }
  SaveError(errptr,
            writer->rep.Put(ToSlice(key, keylen), ToSlice(val, vallen)));
}

void varve_sstfilewriter_merge(varve_sstfilewriter_t* writer, const char* key,
                               size_t keylen, const char* val, size_t vallen,
                               char** errptr) {
  if (!Usable(errptr, Given{writer, "writer"}, Bytes{key, keylen, "key"},
              Bytes{val, vallen, "val"})) {
    return;
  }
  SaveError(errptr,
            writer->rep.Merge(ToSlice(key, keylen), ToSlice(val, vallen)));
}

void varve_sstfilewriter_delete(varve_sstfilewriter_t* writer, const char* key,
                                size_t keylen, char** errptr) {
  if (!Usable(errptr, Given{writer, "writer"}, Bytes{key, keylen, "key"})) {
    return;
  }
  SaveError(errptr, writer->rep.Delete(ToSlice(key, keylen)));
}

void varve_sstfilewriter_delete_range(varve_sstfilewriter_t* writer,
                                      const char* begin_key,
                                      size_t begin_keylen, const char* end_key,
                                      size_t end_keylen, char** errptr) {
  if (!Usable(errptr, Given{writer, "writer"},
              Bytes{begin_key, begin_keylen, "begin_key"},
              Bytes{end_key, end_keylen, "end_key"})) {
    return;
  }
  SaveError(errptr, writer->rep.DeleteRange(ToSlice(begin_key, begin_keylen),
                                            ToSlice(end_key, end_keylen)));
}

void varve_sstfilewriter_finish(varve_sstfilewriter_t* writer, char** errptr) {
  if (!Usable(errptr, Given{writer, "writer"})) return;
  SaveError(errptr, writer->rep.Finish());
}

void varve_sstfilewriter_file_size(varve_sstfilewriter_t* writer,
                                   uint64_t* file_size) {
  if (file_size == nullptr) return;
  *file_size = writer == nullptr ? 0 : writer->rep.FileSize();
}

void varve_sstfilewriter_destroy(varve_sstfilewriter_t* writer) {
  delete writer;
}

void varve_ingest_external_files(varve_t* db,
                                 varve_column_family_handle_t* column_family,
                                 const char* const* file_list, size_t list_len,
                                 int how, char** errptr) {
  if (!Usable(errptr, Given{db, "db"}, Given{file_list, "file_list"})) return;
  if (column_family != nullptr &&
      !Usable(errptr, OwnFamily{column_family, db})) {
    return;
  }
  std::vector<std::string> files;
  for (size_t i = 0; i < list_len && list_len <= kMaxEntries<char*>; ++i) {
    if (!Usable(errptr, Given{file_list[i], "file_list"})) return;
    files.emplace_back(file_list[i]);
  }
  varve::IngestExternalFileOptions options;
  options.link_files = (how & varve_ingest_link) != 0;
  options.move_files = (how & varve_ingest_move) != 0;
  options.verify_checksums_before_ingest = (how & varve_ingest_verify) != 0;
  SaveError(errptr,
            db->db->IngestExternalFile(
                column_family == nullptr ? nullptr : column_family->rep.get(),
                files, options));
}

}  // extern "C"
