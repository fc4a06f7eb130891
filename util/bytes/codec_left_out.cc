// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "util/bytes/codec.h"

// The compression libraries that the build left out. CMakeLists.txt defines the
// names for this file, and compiles codec_<name>.cc for each library that it
// does not name here.

namespace varve {

#ifdef VARVE_WITHOUT_SNAPPY
const Codec* SnappyCodec() { return nullptr; }
#endif
#ifdef VARVE_WITHOUT_LZ4
const Codec* Lz4Codec() { return nullptr; }
#endif
#ifdef VARVE_WITHOUT_ZSTD
const Codec* ZstdCodec() { return nullptr; }
#endif
#ifdef VARVE_WITHOUT_ZLIB
const Codec* ZlibCodec() { return nullptr; }
#endif
#ifdef VARVE_WITHOUT_BZIP2
const Codec* Bzip2Codec() { return nullptr; }
#endif

}  // namespace varve
