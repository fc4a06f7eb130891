// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/memtable/blink_tree.h"

#include "db/memtable/blink_tree_impl.h"
#include "db/memtable/blink_tree_walk.h"

namespace varve {

template class BasicBlinkTree<NoBlinkPause>;

}  // namespace varve
