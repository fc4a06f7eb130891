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

// Read an OPTIONS file. Return Corruption, with the file's name and a line's
// number, if it is damaged or too large.
Status ReadOptionsText(Env* env, const std::string& path, std::string* text);
Status ReadOptionsDocument(Env* env, const std::string& path,
                           OptionsDocument* document);

}  // namespace varve
