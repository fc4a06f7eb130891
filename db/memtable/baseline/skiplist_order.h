// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

// Creates the structure of ablation memtable=skiplist: a skiplist.

#include <memory>

#include "db/memtable/memtable_order.h"

namespace varve {

std::unique_ptr<MemTableOrder> NewSkipListOrder(
    const InternalKeyComparator* comparator, Arena* entries, Arena* nodes);

}  // namespace varve
