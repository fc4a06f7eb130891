// Varve: a key-value storage engine. MIT licence, see LICENSE.
#include "varve/version.h"

#define VARVE_TEXT(number) #number
#define VARVE_DOTTED(major, minor, patch) \
  VARVE_TEXT(major) "." VARVE_TEXT(minor) "." VARVE_TEXT(patch)

namespace varve {

const char* VersionString() {
  return VARVE_DOTTED(VARVE_VERSION_MAJOR, VARVE_VERSION_MINOR,
                      VARVE_VERSION_PATCH);
}

}  // namespace varve
