import { describeFlatness } from '../support/flatness.ts';

describeFlatness('native');
