# Varve: a key-value storage engine. MIT licence, see LICENSE.
#
# Debian packages: generates the folder debian/ in the build tree and makes
# `cpack` run debian_packages, which packs this tree by Debian's own tools.

set(VARVE_PACKAGE_MAINTAINER "" CACHE STRING
    "Maintainer of the packages, as 'Name <address>'. Empty: DEBFULLNAME and DEBEMAIL of the environment, or a placeholder"
)
# One that begins with 0 is older than any package of Debian's own.
set(VARVE_PACKAGE_REVISION 0varve1 CACHE STRING
    "Debian revision of the packages")
set(VARVE_PACKAGE_BENCH_ENGINES rocksdb leveldb lmdb CACHE STRING
    "Engines that the package varve-bench promises")
mark_as_advanced(VARVE_PACKAGE_BENCH_ENGINES)

# ---- The maintainer of the packages -----------------------------------------

set(deb_maintainer "${VARVE_PACKAGE_MAINTAINER}")
if(NOT deb_maintainer AND DEFINED ENV{DEBFULLNAME} AND DEFINED ENV{DEBEMAIL})
  set(deb_maintainer "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
if(NOT deb_maintainer)
  # The domain is reserved, so that mail to it never reaches anybody.
  set(deb_maintainer "Unpublished build of Varve <nobody@varve.invalid>")
endif()
if(NOT deb_maintainer MATCHES "^[^<>\n]+ <[^<>@ \n]+@[^<>@ \n]+>$")
  message(FATAL_ERROR "VARVE_PACKAGE_MAINTAINER is '${deb_maintainer}':"
                      " use the form 'Name <user@domain>'.")
endif()

# ---- What the packages contain and need -------------------------------------

set(deb_multiarch "${CMAKE_LIBRARY_ARCHITECTURE}")
if(NOT deb_multiarch)
  set(deb_multiarch "${CMAKE_SYSTEM_PROCESSOR}-linux-gnu")
endif()
varve_install_libraries("lib/${deb_multiarch}" debian- EXCLUDE_FROM_ALL)

set(deb_soname_version "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(deb_library "libvarve${deb_soname_version}")

# The packages that linking the static library needs, and the options that demand
# their libraries. xxHash has no option.
set(deb_library_packages "")
set(deb_library_options "")
foreach(name IN LISTS VARVE_LIBRARIES_IN_USE)
  list(GET VARVE_LIBRARY_${name} 3 package)
  list(APPEND deb_library_packages ${package})
  if(DEFINED CACHE{VARVE_WITH_${name}})
    list(APPEND deb_library_options -DVARVE_WITH_${name}=ON)
  endif()
endforeach()
list(JOIN deb_library_options " " deb_library_options)

# The engines of varve-bench: their packages, the value of VARVE_BENCH_ENGINES, and
# a phrase of their names.
set(deb_engine_packages ${VARVE_PACKAGE_BENCH_ENGINES})
list(TRANSFORM deb_engine_packages REPLACE ".+" "lib\\0-dev")
list(JOIN VARVE_PACKAGE_BENCH_ENGINES "\\;" deb_engines)
set(deb_engine_names Varve ${VARVE_PACKAGE_BENCH_ENGINES})
list(TRANSFORM deb_engine_names REPLACE "rocksdb" "RocksDB")
list(TRANSFORM deb_engine_names REPLACE "leveldb" "LevelDB")
list(TRANSFORM deb_engine_names REPLACE "lmdb" "LMDB")
list(JOIN deb_engine_names ", " deb_engine_names)
string(REGEX REPLACE "(.*), " "\\1 and " deb_engine_names "${deb_engine_names}")

set(deb_build_depends ${deb_library_packages} ${deb_engine_packages})
list(JOIN deb_build_depends ",\n         " deb_build_depends)
list(JOIN deb_library_packages ",\n         " deb_dev_depends)

# Why no packages can be made of this tree, or nothing if they can. Sanitizers and
# libraries that are left out come first, since parts are missing because of them.
set(deb_refusal "")
get_property(engines GLOBAL PROPERTY VARVE_BENCH_ENGINES_BUILT)
get_property(jemalloc GLOBAL PROPERTY VARVE_TOOLS_JEMALLOC_BUILT)
set(missing ${VARVE_PACKAGE_BENCH_ENGINES})
list(REMOVE_ITEM missing ${engines})
set(unasked ${engines})
list(REMOVE_ITEM unasked ${VARVE_PACKAGE_BENCH_ENGINES})
list(JOIN missing ", " missing)
list(JOIN unasked ", " unasked)
if(VARVE_SANITIZE)
  set(deb_refusal "This tree is built with sanitizers (VARVE_SANITIZE).")
elseif(VARVE_LIBRARIES_LEFT_OUT)
  list(JOIN VARVE_LIBRARIES_LEFT_OUT ", " left_out)
  set(deb_refusal
      "The packages contain all of Varve, and this tree was built without ${left_out}. Install these libraries (tools/install_deps bench) and configure with VARVE_WITH_... of AUTO or ON."
  )
elseif(NOT VARVE_BUILD_TOOLS OR NOT VARVE_BUILD_SHARED
       OR NOT TARGET varve_leveldb OR NOT TARGET varve_rocksdb_7_8)
  set(deb_refusal
      "The packages contain the shared library, the tools and the libraries that replace LevelDB's and RocksDB's: configure with VARVE_BUILD_SHARED, VARVE_BUILD_TOOLS and VARVE_BUILD_COMPAT, and with Python 3."
  )
elseif(missing)
  set(deb_refusal
      "varve-bench promises to compare with ${missing}, which this tree was built without. Install the engines (tools/install_deps test) and configure with VARVE_BENCH_ENGINES=auto, or change VARVE_PACKAGE_BENCH_ENGINES."
  )
elseif(unasked)
  set(deb_refusal
      "This tree was built with ${unasked}, which varve-bench does not promise. Configure with a list in VARVE_BENCH_ENGINES, or change VARVE_PACKAGE_BENCH_ENGINES."
  )
elseif(VARVE_ROCKSDB_ROOT)
  set(deb_refusal
      "This tree compares with the RocksDB in VARVE_ROCKSDB_ROOT, which no package has."
  )
elseif(NOT jemalloc)
  set(deb_refusal
      "The tools of the packages use jemalloc, which this tree was built without. Install it (tools/install_deps bench) and configure with VARVE_TOOLS_JEMALLOC=ON."
  )
endif()

# ---- The folder debian/ of this tree ----------------------------------------

set(deb_folder "${PROJECT_BINARY_DIR}/packaging/debian")
file(REMOVE_RECURSE "${deb_folder}")
file(GLOB templates CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_LIST_DIR}"
     "${CMAKE_CURRENT_LIST_DIR}/debian/*"
     "${CMAKE_CURRENT_LIST_DIR}/debian/source/*")
list(REMOVE_ITEM templates debian/source)
foreach(template IN LISTS templates)
  # The name of the library's package is in names of files too.
  string(REPLACE "LIBRARY" "${deb_library}" file "${template}")
  configure_file("${CMAKE_CURRENT_LIST_DIR}/${template}"
                 "${PROJECT_BINARY_DIR}/packaging/${file}" @ONLY)
endforeach()
configure_file("${CMAKE_CURRENT_LIST_DIR}/settings.in"
               "${PROJECT_BINARY_DIR}/packaging/settings" @ONLY)

# ---- cpack ------------------------------------------------------------------

set(CPACK_GENERATOR External)
set(CPACK_PACKAGE_NAME varve)
set(CPACK_EXTERNAL_PACKAGE_SCRIPT "${PROJECT_BINARY_DIR}/packaging/cpack.cmake")
configure_file("${CMAKE_CURRENT_LIST_DIR}/cpack.cmake.in"
               "${CPACK_EXTERNAL_PACKAGE_SCRIPT}" @ONLY)
include(CPack)
