# ingot_page_bundle(VARIABLE): the source file with the files of a run's page. web/build.mjs makes it. Without Node.js and
# npm it is no_bundle.cc, and the configuration says so.
function(ingot_page_bundle variable)
  find_program(INGOT_NODE node)
  find_program(INGOT_NPM npm)
  if(NOT INGOT_NODE OR NOT INGOT_NPM)
    message(STATUS "Node.js with npm not found: ingot is built without a run's page")
    set(${variable} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/no_bundle.cc PARENT_SCOPE)
    return()
  endif()
  set(bundle ${CMAKE_CURRENT_BINARY_DIR}/bundle.cc)
  set(web ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../web)
  file(GLOB web_sources CONFIGURE_DEPENDS ${web}/src/*)
  add_custom_command(
    OUTPUT ${bundle}
    COMMAND ${INGOT_NODE} ${web}/build.mjs ${bundle}
    DEPENDS ${web_sources} ${web}/build.mjs ${web}/package-lock.json
    COMMENT "bundle of the page" VERBATIM)
  set(${variable} ${bundle} PARENT_SCOPE)
endfunction()
