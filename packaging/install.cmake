# Varve: a key-value storage engine. MIT licence, see LICENSE.
#
# What `cmake --install` puts where, and Debian packages of it by `cpack`:
# libvarve0.1 (component runtime), libvarve-dev (dev), varve-tools (tools) and
# varve-leveldb (leveldb).

include(CMakePackageConfigHelpers)
set(cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/varve")
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# ---- The libraries ----------------------------------------------------------

install(TARGETS varve EXPORT varve-static-targets ARCHIVE COMPONENT dev)
install(FILES ${public_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/varve"
        COMPONENT dev)
install(EXPORT varve-static-targets NAMESPACE varve::
        DESTINATION "${cmake_dir}" COMPONENT dev)
if(VARVE_BUILD_SHARED)
  install(TARGETS varve_shared EXPORT varve-shared-targets
          LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev)
  install(EXPORT varve-shared-targets NAMESPACE varve::
          DESTINATION "${cmake_dir}" COMPONENT dev)
endif()
install(TARGETS varve_testing EXPORT varve-testing-targets
        ARCHIVE COMPONENT dev)
install(FILES include/varve/testing/fault_injection_env.h
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/varve/testing" COMPONENT dev)
install(EXPORT varve-testing-targets NAMESPACE varve::
        DESTINATION "${cmake_dir}" COMPONENT dev)

# ---- For those who build with them ------------------------------------------

configure_package_config_file(
  packaging/varve-config.cmake.in varve-config.cmake
  INSTALL_DESTINATION "${cmake_dir}" NO_SET_AND_CHECK_MACRO)
# Before 1.0, a new minor version may change the interface.
write_basic_package_version_file(varve-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES packaging/varve-libraries.cmake
              "${PROJECT_BINARY_DIR}/varve-config.cmake"
              "${PROJECT_BINARY_DIR}/varve-config-version.cmake"
        DESTINATION "${cmake_dir}" COMPONENT dev)

# The prefix is found from where the file lies, so that the tree can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig "/${pkgconfig_dir}" "/")
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
# The libraries, for the linker: a folder is named only if the compiler does not
# know it. Snappy is in C++, and comes before C++'s library where all is static.
set(VARVE_LINKER_ARGUMENTS "")
foreach(name IN LISTS VARVE_LIBRARIES_IN_USE)
  list(GET VARVE_LIBRARY_${name} 2 library)
  set(folders "${VARVE_${name}_LIBRARY_DIRS}")
  if(VARVE_${name}_FILE)
    get_filename_component(folders "${VARVE_${name}_FILE}" DIRECTORY)
  endif()
  list(REMOVE_ITEM folders ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
  foreach(folder IN LISTS folders)
    # Below a sysroot is where the target looks by itself.
    if(NOT CMAKE_SYSROOT OR NOT folder MATCHES "^${CMAKE_SYSROOT}")
      string(APPEND VARVE_LINKER_ARGUMENTS "-L${folder} ")
    endif()
  endforeach()
  string(APPEND VARVE_LINKER_ARGUMENTS "-l${library} ")
endforeach()
string(APPEND VARVE_LINKER_ARGUMENTS "-pthread -lstdc++ -lm")
# What the static library needs, as Debian names it: "liblz4-dev, libzstd-dev".
set(VARVE_DEBIAN_PACKAGES "")
foreach(name IN LISTS VARVE_LIBRARIES_IN_USE)
  list(GET VARVE_LIBRARY_${name} 3 package)
  list(APPEND VARVE_DEBIAN_PACKAGES ${package})
endforeach()
list(JOIN VARVE_DEBIAN_PACKAGES ", " VARVE_DEBIAN_PACKAGES)
foreach(file IN ITEMS varve.pc varve-static.pc varve-testing.pc)
  configure_file(packaging/${file}.in ${file} @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${file}" DESTINATION "${pkgconfig_dir}"
          COMPONENT dev)
endforeach()

# ---- The tools --------------------------------------------------------------

if(VARVE_BUILD_TOOLS)
  install(TARGETS varve_tool RUNTIME COMPONENT tools)
  # The name db_bench is taken, by Debian's rocksdb-tools.
  install(PROGRAMS "$<TARGET_FILE:db_bench>" TYPE BIN RENAME varve-bench
          COMPONENT tools)
  install(FILES packaging/varve.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1"
          COMPONENT tools)
  install(FILES packaging/varve.bash RENAME varve COMPONENT tools
          DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
endif()

# ---- The library in the place of LevelDB's ------------------------------------

if(TARGET varve_leveldb)
  # A folder that the dynamic linker does not search, so that only
  # varve-leveldb's programs get the library.
  set(leveldb_dir "${CMAKE_INSTALL_LIBDIR}/varve-leveldb")
  install(TARGETS varve_leveldb
          LIBRARY DESTINATION "${leveldb_dir}" COMPONENT leveldb NAMELINK_SKIP)
  install(FILES "${PROJECT_BINARY_DIR}/leveldb/libleveldb.so.1"
          DESTINATION "${leveldb_dir}" COMPONENT leveldb)
  install(PROGRAMS compat/leveldb/leveldb-from-dump
          DESTINATION "${leveldb_dir}" COMPONENT leveldb)
  install(PROGRAMS tools/varve-leveldb TYPE BIN COMPONENT leveldb)
endif()

# ---- Debian packages --------------------------------------------------------

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME varve)
set(CPACK_PACKAGE_CONTACT "The Varve authors <varve@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Embeddable key-value storage engine")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL dev tools)
if(VARVE_BUILD_SHARED)
  list(APPEND CPACK_COMPONENTS_ALL runtime)
endif()
if(TARGET varve_leveldb)
  list(APPEND CPACK_COMPONENTS_ALL leveldb)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME
    "libvarve${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "The shared library that programs built with Varve load.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libvarve-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "${VARVE_DEBIAN_PACKAGES}")
if(VARVE_BUILD_SHARED)
  string(PREPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
         "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION}), ")
endif()
set(CPACK_COMPONENT_DEV_DESCRIPTION
    "Headers, the static libraries, and files for CMake and pkg-config.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME varve-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION database)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
    "varve, which inspects and repairs databases, and varve-bench.")
set(CPACK_DEBIAN_LEVELDB_PACKAGE_NAME varve-leveldb)
set(CPACK_DEBIAN_LEVELDB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LEVELDB_PACKAGE_RECOMMENDS varve-tools)
set(CPACK_DEBIAN_LEVELDB_PACKAGE_SUGGESTS "python3, libleveldb1d")
set(CPACK_COMPONENT_LEVELDB_DESCRIPTION
    "Runs programs that were built for LevelDB on Varve, with varve-leveldb.")
include(CPack)
