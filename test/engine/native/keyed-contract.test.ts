import { keyedContract } from '../../contract/contract.js';

keyedContract({ name: 'native' });
