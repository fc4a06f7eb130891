// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <memory>
#include <unordered_map>

#include "db/family/family_set.h"
#include "db/options/db_mutex.h"
#include "db/snapshot/super_version.h"

namespace varve {

// Returns the present SuperVersions of the live families but the default one,
// with a reference to each and to its family. The set must outlive the result.
std::unique_ptr<const FamilyMoment> NewMomentLocked(FamilySet* families)
    VARVE_REQUIRES(kDbMutex);

}  // namespace varve
