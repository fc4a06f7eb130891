// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "db/blink_tree.h"

#include "db/blink_tree_impl.h"

namespace varve {

template class BasicBlinkTree<NoBlinkPause>;

}  // namespace varve
