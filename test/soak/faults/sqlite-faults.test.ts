import { reportMissing } from '../../support/requirements.js';
import { DRIVER_ADVICE, sqliteDrivers } from '../../support/sqlite.js';
import { describeFaults } from './faults.js';

if (sqliteDrivers.length === 0)
  reportMissing('the SQLite store under faults', 'driver of SQLite', DRIVER_ADVICE);
else describeFaults('the SQLite store', 'sqlite');
