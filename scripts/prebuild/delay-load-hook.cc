// For MinGW-w64 what node-gyp's own hook is for Microsoft's compiler: the host may not be called node.exe
// (electron.exe, a packaged application), so the exports of whatever started the process serve.
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
