import { keyedContract } from '../../contract/contract.js';

keyedContract({ name: 'native', coreOnly: false });
