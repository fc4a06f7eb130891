// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include "varve/status.h"

namespace varve {

class DBImpl;
class Transaction;
class WriteBatch;

// Adds the updates of a batch to a transaction of the DB, in their order. Stops
// at the first error. For a column family that the DB does not have, returns
// InvalidArgument, or skips the update if `skips_dropped`.
Status ReplayBatch(const WriteBatch& batch, DBImpl* engine, bool skips_dropped,
                   Transaction* transaction);

}  // namespace varve
