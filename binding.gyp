{
  'variables': {
    # Warnings stop our own builds (STRIPELOCK_WERROR=1), never a user's install with a newer compiler.
    'stripelock_werror%': '<!(node scripts/addon-inputs.mjs werror)',
  },
  'targets': [
    {
      'target_name': 'stripelock',
      'sources': ['<!@(node scripts/addon-inputs.mjs sources)'],
      'include_dirs': [
        'native',
        '<!(node scripts/addon-inputs.mjs include node-addon-api)',
        '<!(node scripts/addon-inputs.mjs include xxhash-addon)',
      ],
      'defines': [
        'NAPI_VERSION=8',
        'NODE_ADDON_API_DISABLE_CPP_EXCEPTIONS',
        'NODE_ADDON_API_DISABLE_DEPRECATED',
        # An environment that is being ended refuses exceptions; without this the process would be aborted then.
        'NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS',
      ],
      # For GCC and Clang on every system; Microsoft's compiler reads its own settings, below.
      'cflags_cc': [
        # With -O3 the binary is larger by half, and what was measured is at most 3 % faster.
        '-std=c++20', '-O2', '-fno-exceptions', '-fno-rtti', '-fno-strict-aliasing',
        '-fvisibility=hidden', '-fvisibility-inlines-hidden',
        '-Wall', '-Wextra', '-Wunused-parameter',
        # A designated initializer leaves the other members at their defaults on purpose.
        '-Wno-missing-field-initializers',
      ],
      'configurations': {
        'Release': { 'defines': ['NDEBUG'] },
      },
      'conditions': [
        ['OS=="win"', {
          # The standard library unwinds through noexcept code only with /EHsc; the addon itself throws nothing.
          'defines!': ['_HAS_EXCEPTIONS=0'],
          # WaitOnAddress, by which a thread parks.
          'libraries': ['-lSynchronization.lib'],
          'msvs_settings': {
            'VCCLCompilerTool': {
              'ExceptionHandling': 1,
              'AdditionalOptions!': ['-std:c++17', '/std:c++17'],
              'AdditionalOptions': ['/std:c++20', '/Zc:__cplusplus', '/utf-8'],
              'WarningLevel': 3,
            },
          },
        }],
        ['OS=="linux"', {
          # What nothing refers to, and the names of what is inside, would be a third of the binary.
          'cflags_cc': ['-pthread', '-ffunction-sections', '-fdata-sections'],
          'ldflags': ['-pthread', '-Wl,--gc-sections', '-Wl,-O1'],
          'configurations': {
            'Release': { 'ldflags': ['-Wl,-s'] },
          },
        }],
        ['OS=="mac"', {
          'xcode_settings': {
            'CLANG_CXX_LANGUAGE_STANDARD': 'c++20',
            'CLANG_CXX_LIBRARY': 'libc++',
            'GCC_ENABLE_CPP_EXCEPTIONS': 'NO',
            'GCC_OPTIMIZATION_LEVEL': '3',
            'GCC_SYMBOLS_PRIVATE_EXTERN': 'YES',
            'MACOSX_DEPLOYMENT_TARGET': '11.0',
            'OTHER_CPLUSPLUSFLAGS': [
              '-fvisibility-inlines-hidden',
              '-Wall', '-Wextra', '-Wunused-parameter', '-Wno-missing-field-initializers',
            ],
          },
        }],
        ['stripelock_werror==1', {
          'cflags_cc': ['-Werror'],
          'xcode_settings': { 'GCC_TREAT_WARNINGS_AS_ERRORS': 'YES' },
          'msvs_settings': { 'VCCLCompilerTool': { 'WarnAsError': 'true' } },
        }],
      ],
    },
  ],
}
