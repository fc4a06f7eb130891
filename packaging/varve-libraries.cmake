# Varve: a key-value storage engine. MIT licence, see LICENSE.
#
# The libraries of others that Varve uses. Both Varve's own CMakeLists.txt and
# the installed package, which needs them to link the static library, include
# this file.

# Of each: the pkg-config module, the header, the library, Debian's package.
set(VARVE_LIBRARY_XXHASH libxxhash xxhash.h xxhash libxxhash-dev)
set(VARVE_LIBRARY_SNAPPY snappy snappy.h snappy libsnappy-dev)
set(VARVE_LIBRARY_LZ4 liblz4 lz4.h lz4 liblz4-dev)
set(VARVE_LIBRARY_ZSTD libzstd zstd.h zstd libzstd-dev)
set(VARVE_LIBRARY_ZLIB zlib zlib.h z zlib1g-dev)
set(VARVE_LIBRARY_BZIP2 bzip2 bzlib.h bz2 libbz2-dev)
set(VARVE_LIBRARY_ISAL libisal isa-l/crc.h isal libisal-dev)
set(VARVE_LIBRARY_URING liburing liburing.h uring liburing-dev)
set(VARVE_LIBRARY_UTF8PROC libutf8proc utf8proc.h utf8proc libutf8proc-dev)

# varve_find_library(<NAME> <found>) looks for the library by pkg-config, and by
# its header where pkg-config or its file is not there. It defines the imported
# target varve_library::<NAME>.
function(varve_find_library name found)
  set(target varve_library::${name})
  set(${found} TRUE PARENT_SCOPE)
  if(TARGET ${target})
    return()
  endif()
  list(GET VARVE_LIBRARY_${name} 0 module)
  list(GET VARVE_LIBRARY_${name} 1 header)
  list(GET VARVE_LIBRARY_${name} 2 library)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(VARVE_${name} QUIET IMPORTED_TARGET ${module})
    if(VARVE_${name}_FOUND)
      add_library(${target} INTERFACE IMPORTED)
      set_target_properties(
        ${target} PROPERTIES INTERFACE_LINK_LIBRARIES
                             PkgConfig::VARVE_${name})
      return()
    endif()
  endif()
  find_path(VARVE_${name}_HEADER ${header})
  find_library(VARVE_${name}_FILE ${library})
  mark_as_advanced(VARVE_${name}_HEADER VARVE_${name}_FILE)
  if(VARVE_${name}_HEADER AND VARVE_${name}_FILE)
    add_library(${target} UNKNOWN IMPORTED)
    set_target_properties(
      ${target} PROPERTIES IMPORTED_LOCATION "${VARVE_${name}_FILE}"
                           INTERFACE_INCLUDE_DIRECTORIES
                           "${VARVE_${name}_HEADER}")
  else()
    set(${found} FALSE PARENT_SCOPE)
  endif()
endfunction()
