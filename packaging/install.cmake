# Varve: a key-value storage engine. MIT licence, see LICENSE.
#
# What `cmake --install` puts where, in components: runtime (the shared library),
# dev, tools, bench, leveldb and rocksdb. debian.cmake makes packages of them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

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

# varve_install_completions(<program> <argument of install>...) installs the
# completions of a program. The shells find them by its name, and each file has
# those of all programs.
function(varve_install_completions program)
  set(data "${CMAKE_INSTALL_DATADIR}")
  set(source "${PROJECT_SOURCE_DIR}/packaging/completions")
  install(FILES "${source}/varve.bash" RENAME "${program}"
          DESTINATION "${data}/bash-completion/completions" ${ARGN})
  install(FILES "${source}/_varve" RENAME "_${program}"
          DESTINATION "${data}/zsh/site-functions" ${ARGN})
  install(FILES "${source}/varve.fish" RENAME "${program}.fish"
          DESTINATION "${data}/fish/vendor_completions.d" ${ARGN})
endfunction()

# varve_install_libraries(<libdir> <prefix of the components> [EXCLUDE_FROM_ALL])
# installs everything whose place depends on the directory of libraries. It can
# be called again with another directory and other components.
function(varve_install_libraries libdir prefix)
  set(cmake_dir "${libdir}/cmake/varve")
  set(pkgconfig_dir "${libdir}/pkgconfig")
  set(dev COMPONENT ${prefix}dev ${ARGN})
  set(headers INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  set(generated "${PROJECT_BINARY_DIR}/packaging/${prefix}files")

  # ---- The libraries --------------------------------------------------------

  install(TARGETS varve EXPORT ${prefix}varve-static-targets
          ARCHIVE DESTINATION "${libdir}" ${dev} ${headers})
  install(FILES ${public_headers}
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/varve" ${dev})
  install(FILES ${rocksdb_headers}
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/varve/rocksdb" ${dev})
  install(EXPORT ${prefix}varve-static-targets NAMESPACE varve::
          FILE varve-static-targets.cmake DESTINATION "${cmake_dir}" ${dev})
  if(VARVE_BUILD_SHARED)
    install(TARGETS varve_shared EXPORT ${prefix}varve-shared-targets
            LIBRARY DESTINATION "${libdir}" COMPONENT ${prefix}runtime
                    NAMELINK_COMPONENT ${prefix}dev ${ARGN} ${headers})
    install(EXPORT ${prefix}varve-shared-targets NAMESPACE varve::
            FILE varve-shared-targets.cmake DESTINATION "${cmake_dir}" ${dev})
  endif()
  install(TARGETS varve_testing EXPORT ${prefix}varve-testing-targets
          ARCHIVE DESTINATION "${libdir}" ${dev} ${headers})
  install(FILES ${testing_headers}
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/varve/testing" ${dev})
  install(EXPORT ${prefix}varve-testing-targets NAMESPACE varve::
          FILE varve-testing-targets.cmake DESTINATION "${cmake_dir}" ${dev})

  # ---- For those who build with them ----------------------------------------

  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/packaging/varve-config.cmake.in"
    "${generated}/varve-config.cmake"
    INSTALL_DESTINATION "${cmake_dir}" NO_SET_AND_CHECK_MACRO)
  # Before 1.0, a new minor version may change the interface.
  write_basic_package_version_file("${generated}/varve-config-version.cmake"
                                   COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/varve-libraries.cmake"
                "${generated}/varve-config.cmake"
                "${generated}/varve-config-version.cmake"
          DESTINATION "${cmake_dir}" ${dev})

  # The prefix is found from where the file lies, so that the tree can be moved.
  file(RELATIVE_PATH prefix_from_pkgconfig "/${pkgconfig_dir}" "/")
  string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")
  foreach(file IN ITEMS varve.pc varve-static.pc varve-testing.pc)
    configure_file("${PROJECT_SOURCE_DIR}/packaging/${file}.in"
                   "${generated}/${file}" @ONLY)
    install(FILES "${generated}/${file}" DESTINATION "${pkgconfig_dir}" ${dev})
  endforeach()

  # ---- The library in the place of LevelDB's --------------------------------

  if(TARGET varve_leveldb)
    # A folder that the dynamic linker does not search, so that only
    # varve-leveldb's programs get the library.
    set(leveldb_dir "${libdir}/varve-leveldb")
    set(leveldb COMPONENT ${prefix}leveldb ${ARGN})
    install(TARGETS varve_leveldb
            LIBRARY DESTINATION "${leveldb_dir}" ${leveldb} NAMELINK_SKIP)
    install(FILES "${PROJECT_BINARY_DIR}/leveldb/libleveldb.so.1"
            DESTINATION "${leveldb_dir}" ${leveldb})
    if(VARVE_BUILD_TOOLS)
      install(TARGETS varve_leveldb_copy
              RUNTIME DESTINATION "${leveldb_dir}" ${leveldb})
    endif()
    install(PROGRAMS "${PROJECT_SOURCE_DIR}/tools/varve-leveldb" TYPE BIN
            ${leveldb})
    install(FILES "${PROJECT_SOURCE_DIR}/packaging/varve-leveldb.1"
            DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" ${leveldb})
    varve_install_completions(varve-leveldb ${leveldb})
  endif()

  # ---- The library in the place of RocksDB's --------------------------------

  if(TARGET varve_rocksdb)
    # Also a folder of its own. Programs are compiled with what is in it.
    set(rocksdb_dir "${libdir}/varve-rocksdb")
    set(rocksdb COMPONENT ${prefix}rocksdb ${ARGN})
    install(TARGETS varve_rocksdb
            LIBRARY DESTINATION "${rocksdb_dir}" ${rocksdb})
    if(TARGET varve_rocksdb_7_8)
      install(TARGETS varve_rocksdb_7_8
              LIBRARY DESTINATION "${rocksdb_dir}" ${rocksdb})
    endif()
    install(FILES "${PROJECT_BINARY_DIR}/compat_rocksdb/rocksdb/c.h"
            DESTINATION "${rocksdb_dir}/include/rocksdb" ${rocksdb})
    # One program for both libraries, which looks at its name.
    install(PROGRAMS "${PROJECT_SOURCE_DIR}/tools/varve-leveldb" TYPE BIN
            RENAME varve-rocksdb ${rocksdb})
    install(FILES "${PROJECT_SOURCE_DIR}/packaging/varve-rocksdb.1"
            DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" ${rocksdb})
    varve_install_completions(varve-rocksdb ${rocksdb})
  endif()
endfunction()

varve_install_libraries("${CMAKE_INSTALL_LIBDIR}" "")

# ---- The tools --------------------------------------------------------------

set(man_dir "${CMAKE_INSTALL_MANDIR}/man1")
if(VARVE_BUILD_TOOLS)
  install(TARGETS varve_tool RUNTIME COMPONENT tools)
  install(PROGRAMS tools/varve-latency TYPE BIN COMPONENT tools)
  install(FILES packaging/varve.1 packaging/varve-latency.1
          DESTINATION "${man_dir}" COMPONENT tools)
  varve_install_completions(varve COMPONENT tools)
  varve_install_completions(varve-latency COMPONENT tools)
  install(FILES packaging/monitoring/varve_dashboard.json
                packaging/monitoring/varve_alerts.yml
          COMPONENT tools
          DESTINATION "${CMAKE_INSTALL_DATADIR}/varve/monitoring")

  # The name db_bench is taken, by Debian's rocksdb-tools.
  install(PROGRAMS "$<TARGET_FILE:db_bench>" TYPE BIN RENAME varve-bench
          COMPONENT bench)
  install(PROGRAMS packaging/varve-lab TYPE BIN COMPONENT bench)
  install(PROGRAMS tools/lab tools/versus COMPONENT bench
          DESTINATION "${CMAKE_INSTALL_DATADIR}/varve-bench/tools")
  install(DIRECTORY tools/labs COMPONENT bench
          DESTINATION "${CMAKE_INSTALL_DATADIR}/varve-bench/tools"
          FILES_MATCHING PATTERN "*.py")
  install(FILES packaging/varve-bench.1 packaging/varve-lab.1
          DESTINATION "${man_dir}" COMPONENT bench)
  varve_install_completions(varve-bench COMPONENT bench)
  varve_install_completions(varve-lab COMPONENT bench)
endif()

include("${CMAKE_CURRENT_LIST_DIR}/debian.cmake")
