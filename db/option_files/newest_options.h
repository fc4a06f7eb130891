// Varve: a key-value storage engine. MIT licence, see LICENSE.
#pragma once

#include <string>

#include "db/option_files/options_document.h"
#include "varve/env.h"
#include "varve/status.h"

namespace varve {

// Stores the name of the OPTIONS file with the highest number in *name. Returns
// NotFound if there is none.
Status FindNewestOptions(Env* env, const std::string& directory,
                         std::string* name);

// Reads an OPTIONS file. Stores its text in *text unless it is null. Returns
// Corruption with the file's name and a line's number if it is damaged.
Status ReadOptionsDocument(Env* env, const std::string& path,
                           OptionsDocument* document,
                           std::string* text = nullptr);

}  // namespace varve
