// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// C functions of catalogs.

#include <deque>
#include <vector>

#include "capi/arguments.h"
#include "capi/handles.h"
#include "util/base/process_wide.h"

using varve::Status;
using varve::capi::Given;
using varve::capi::SaveError;
using varve::capi::Usable;

struct varve_catalog_t {
  std::unique_ptr<varve::Catalog> rep;  // Null after it is closed.
};

namespace {

// Returns whether the catalog is open. Otherwise sets an error.
bool IsOpen(const varve_catalog_t* catalog, char** errptr) {
  if (!Usable(errptr, Given{catalog, "catalog"})) return false;
  if (catalog->rep != nullptr) return true;
  SaveError(errptr, Status::ShutdownInProgress("the catalog was closed"));
  return false;
}

// Keeps the most recently closed handles, so that calls with them return
// errors.
void Retire(varve_catalog_t* catalog) {
  constexpr size_t kHandlesToKeep = 256;
  // Never destroyed: programs may close catalogs when they end.
  static constinit varve::ProcessWide<varve::Mutex> mutex;
  static constinit varve::ProcessWide<
      std::deque<std::unique_ptr<varve_catalog_t>>>
      closed;
  catalog->rep.reset();
  varve::MutexLock lock(&mutex.Get());
  closed.Get().emplace_back(catalog);
  if (closed.Get().size() > kHandlesToKeep) closed.Get().pop_front();
}

}  // namespace

extern "C" {

varve_catalog_t* varve_catalog_open(const varve_options_t* options,
                                    const char* root, char** errptr) {
  if (!Usable(errptr, Given{options, "options"}, Given{root, "root"})) {
    return nullptr;
  }
  varve::CatalogOptions catalog_options;
  catalog_options.options = options->ForUse();
  catalog_options.create_if_missing = options->rep.create_if_missing;
  auto catalog = std::make_unique<varve_catalog_t>();
  const Status status =
      varve::Catalog::Open(catalog_options, root, &catalog->rep);
  return SaveError(errptr, status) ? nullptr : catalog.release();
}

uint8_t varve_catalog_close(varve_catalog_t* catalog, char** errptr) {
  if (catalog == nullptr || !IsOpen(catalog, errptr)) return 1;
  const Status status = catalog->rep->Close();
  SaveError(errptr, status);
  if (status.IsBusy()) return 0;
  Retire(catalog);
  return 1;
}

void varve_catalog_create_db(varve_catalog_t* catalog, const char* name,
                             char** errptr) {
  if (!IsOpen(catalog, errptr) || !Usable(errptr, Given{name, "name"})) return;
  SaveError(errptr, catalog->rep->Create(name));
}

varve_t* varve_catalog_find(varve_catalog_t* catalog, const char* name,
                            char** errptr) {
  if (!IsOpen(catalog, errptr) || !Usable(errptr, Given{name, "name"})) {
    return nullptr;
  }
  auto handle = std::make_unique<varve_t>();
  const Status status = catalog->rep->Find(name, &handle->reference);
  if (!status.ok()) {
    if (!status.IsNotFound()) SaveError(errptr, status);
    return nullptr;
  }
  handle->db = handle->reference.get();
  return handle.release();
}

void varve_catalog_drop_db(varve_catalog_t* catalog, const char* name,
                           char** errptr) {
  if (!IsOpen(catalog, errptr) || !Usable(errptr, Given{name, "name"})) return;
  SaveError(errptr, catalog->rep->Drop(name));
}

const char** varve_catalog_list(varve_catalog_t* catalog, size_t* count) {
  if (count == nullptr) return nullptr;
  *count = 0;
  if (!IsOpen(catalog, nullptr)) return nullptr;
  std::vector<std::string> names;
  catalog->rep->List(&names);
  // The pointers, followed by the strings that they point to.
  size_t bytes = (names.size() + 1) * sizeof(char*);
  for (const std::string& name : names) bytes += name.size() + 1;
  auto** const list = static_cast<const char**>(malloc(bytes));
  *count = list != nullptr ? names.size() : 0;
  if (list == nullptr) return nullptr;
  char* text = reinterpret_cast<char*>(list + names.size() + 1);
  for (size_t i = 0; i < names.size(); ++i) {
    list[i] = text;
    memcpy(text, names[i].c_str(), names[i].size() + 1);
    text += names[i].size() + 1;
  }
  list[names.size()] = nullptr;
  return list;
}

size_t varve_catalog_close_idle(varve_catalog_t* catalog, uint64_t idle_us,
                                char** errptr) {
  size_t closed = 0;
  if (!IsOpen(catalog, errptr)) return closed;
  SaveError(errptr, catalog->rep->CloseIdle(idle_us, &closed));
  return closed;
}

}  // extern "C"
