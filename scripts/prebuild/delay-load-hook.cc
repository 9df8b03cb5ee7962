// The equivalent for MinGW-w64 of node-gyp's own hook for Microsoft's compiler. The host may not be called node.exe
// (electron.exe, a packaged application), so the exports come from the program that started the process.
#include <windows.h>

#include <delayimp.h>

#include <cstring>

namespace {

FARPROC WINAPI loadHost(unsigned event, PDelayLoadInfo info) {
  if (event != dliNotePreLoadLibrary || _stricmp(info->szDll, HOST_BINARY) != 0) return nullptr;
  return reinterpret_cast<FARPROC>(GetModuleHandleW(nullptr));
}

}  // namespace

extern "C" {
PfnDliHook __pfnDliNotifyHook2 = loadHost;
}
