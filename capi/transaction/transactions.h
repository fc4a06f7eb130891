// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Checks of the arguments of transactions' C functions.

#include "capi/arguments.h"
#include "capi/handles.h"

namespace varve::capi {

// A column family of the database of a transaction that an earlier argument has
// checked.
struct FamilyOfTransaction {
  const varve_column_family_handle_t* family;
  const varve_transaction_t* transaction;
  const char* name = "column_family";

  bool ok() const { return family != nullptr && family->db == transaction->db; }
  const char* Problem() const {
    return family == nullptr ? "is NULL"
                             : "is of another database, or of a closed one";
  }
};

// Returns whether the transaction and the further arguments are valid, and the
// database is open.
template <typename... Arguments>
bool CanUse(char** errptr, const varve_transaction_t* transaction,
            const Arguments&... arguments) {
  if (!Usable(errptr, Given{transaction, "transaction"}, arguments...)) {
    return false;
  }
  if (transaction->rep != nullptr) [[likely]]
    return true;
  ReplaceError(errptr, Status::ShutdownInProgress("the database was closed"));
  return false;
}

}  // namespace varve::capi
