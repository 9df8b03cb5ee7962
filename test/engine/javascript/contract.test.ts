import { lockContract } from '../../contract/contract.js';

lockContract({ name: 'javascript' });
