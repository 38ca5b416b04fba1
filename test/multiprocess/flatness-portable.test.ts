import { describeFlatness } from '../support/flatness.ts';

describeFlatness('portable');
