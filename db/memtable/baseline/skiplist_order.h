// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// memtable=skiplist: a skiplist orders the memtable.

#include <memory>

#include "db/memtable/memtable_order.h"

namespace varve {

std::unique_ptr<MemTableOrder> NewSkipListOrder(
    const InternalKeyComparator* comparator, Arena* arena);

}  // namespace varve
